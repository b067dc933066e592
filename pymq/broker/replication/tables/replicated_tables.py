"""The tables that slaves copy: how a master sends each one and how a slave takes it over."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from pymq.broker.metadata.groups import Groups, read_groups
from pymq.broker.metadata.offset_table import as_offset_table
from pymq.broker.metadata.order_infos import MEMBER as ORDER_INFOS_MEMBER
from pymq.broker.metadata.request_modes import MEMBER as MODES_MEMBER
from pymq.broker.metadata.table_reading import read_version
from pymq.broker.metadata.topics import read_topics
from pymq.broker.replication.tables.slave_cursors import LOG_BOUND, SlaveCursors
from pymq.broker.replication.tables.table_pieces import PIECE, PieceCount, PieceSizes, TablePieces
from pymq.config.values import ASYNC_MASTER, SYNC_MASTER
from pymq.model.names import HALF_TOPIC, OP_HALF_TOPIC
from pymq.model.tables import DataVersion
from pymq.model.transactions import TRANSACTION_GROUP
from pymq.security.made_by_users import MADE_MEMBER
from pymq.security.user_table import USERS as USERS_MEMBER
from pymq.store.disk.timer_checkpoint import FIELDS, LAST_READ_TIME, QUEUE_OFFSET_OF_MASTER

if TYPE_CHECKING:
    from pymq.broker.messages.delays import DelayService
    from pymq.broker.metadata.auth_manager import AuthManager
    from pymq.broker.metadata.cursors import CursorManager
    from pymq.broker.metadata.made_by_users_table import MadeByUsersTable
    from pymq.broker.metadata.metadata import Metadata
    from pymq.broker.metadata.order_infos import OrderInfos
    from pymq.broker.metadata.request_modes import RequestModes
    from pymq.broker.replication.roles.master_role import SeenMasterRole
    from pymq.broker.stats.stats_manager import StatsManager
    from pymq.broker.timers.timer_service import TimerService
    from pymq.broker.transactions.transactions import Transactions
    from pymq.model.tables import TopicConfig
    from pymq.store.store import MessageStore

TOPICS = "topics"
GROUPS = "subscriptionGroup"
OFFSETS = "consumerOffset"
ORDER_INFOS = "consumerOrderInfo"
DELAYS = "delayOffset"
REQUEST_MODES = "messageRequestMode"
TIMER_CHECK = "timer check point"
DELETIONS = "deletedTopics"
POP_OFFSETS = "popOffsets"
TRANSACTIONS = "transactions"
MASTER_ROLE = "masterRole"
USERS = "auth"
MADE_BY_USERS = "madeByUsers"


# Compared in every turn; converted to text only for an answer to a slave.
Stamp = tuple[DataVersion | int, ...]


class TableRead(NamedTuple):
    """A table as its file has it; with ``is_part`` only what changed since a version, or a piece of a whole copy."""

    table: dict[str, Any]
    is_part: bool = False
    version: str = ""  # of a piece; "" for the table's
    is_last: bool = True  # False: the slave asks for the next piece at once


@dataclass(frozen=True, slots=True)
class ReplicatedTable:
    """One table: its versions, and how to read it and take it over.

    ``name`` is the name of its file in ``config/``, if it has one; ``member`` is the JSON object with the content.
    ``start_id`` differs at each start of a broker. ``stamp`` changes with every change of the table. It runs in every
    turn, so it is cheap. ``read`` gets the version that the slave has, which may be empty or another master's.
    ``take(table, is_part)`` raises StoreError or OSError when the disk fails; the slave then asks for the table again.
    ``waits_for_log``: the table refers to messages, so a slave takes it when its log has them.
    """

    name: str
    member: str
    start_id: str
    stamp: Callable[[], Stamp]
    read: Callable[[str], TableRead]
    take: Callable[[dict[str, Any], bool], None]
    waits_for_log: bool = False

    def version(self) -> str:
        """Return a text that differs after every change, also across restarts."""
        return _version(self.start_id, self.stamp())


class _Side(Protocol):
    """The functions of a :class:`ReplicatedTable` for one of the broker's tables."""

    def stamp(self) -> Stamp: ...

    def read(self, known: str) -> TableRead: ...

    def take(self, table: dict[str, Any], is_part: bool) -> None: ...


class MasterMode(Protocol):
    """What is asked of :class:`pymq.broker.replication.sync_mode.SyncMode`."""

    @property
    def is_on(self) -> bool:
        """True when answers to sends wait for slaves."""
        ...


def replicated_tables(
    *,
    store: MessageStore,
    metadata: Metadata,
    delays: DelayService,
    transactions: Transactions,
    timers: TimerService,
    stats: StatsManager,
    sync_mode: MasterMode,
    master_role: SeenMasterRole,
    start_id: str,
    piece_sizes: PieceSizes = PieceSizes(),  # noqa: B008 - it does not change
) -> list[ReplicatedTable]:
    """Return the tables in the order in which a slave takes them. ``start_id`` differs at each start of a broker."""

    def row(name: str, member: str, side: _Side, *, waits_for_log: bool = False) -> ReplicatedTable:
        return ReplicatedTable(name, member, start_id, side.stamp, side.read, side.take, waits_for_log)

    auth = [row(USERS, USERS_MEMBER, _Auth(metadata.auth))] if metadata.auth.is_on else []
    return [
        *auth,
        # First of the others: offsets of a deleted topic must go before those of a new topic of its name come.
        row(DELETIONS, DELETIONS, _Deletions(store, metadata)),
        row(TOPICS, "topicConfigTable", _Topics(metadata, stats, start_id, piece_sizes.entries)),
        row(GROUPS, "subscriptionGroupTable", _Groups(metadata, stats, start_id, piece_sizes.entries)),
        row(MADE_BY_USERS, MADE_MEMBER, _MadeByUsers(metadata.made_by_users)),
        row(REQUEST_MODES, MODES_MEMBER, _RequestModes(metadata.request_modes)),
        row(OFFSETS, "offsetTable", _Offsets(metadata.cursors, start_id, piece_sizes.offsets)),
        row(ORDER_INFOS, ORDER_INFOS_MEMBER, _OrderInfos(metadata.order_infos, start_id)),
        # A slave counts a delayed message as delivered once its log has the delivered copy.
        row(DELAYS, "offsetTable", _Delays(delays), waits_for_log=True),
        # Likewise a message counts as handed out to a pop once its log has the check point.
        row(POP_OFFSETS, "offsetTable", _PopOffsets(metadata.cursors), waits_for_log=True),
        # Likewise a transaction has ended for a slave once its log has what ended it.
        row(TRANSACTIONS, "offsetTable", _Transactions(transactions, metadata.cursors), waits_for_log=True),
        row(TIMER_CHECK, TIMER_CHECK, _Timers(timers), waits_for_log=True),
        row(MASTER_ROLE, MASTER_ROLE, _MasterRole(sync_mode, master_role)),
    ]


def _version(start_id: str, stamp: Stamp) -> str:
    return ".".join([start_id, *map(_text, stamp)])


def _text(part: DataVersion | int) -> str:
    return str(part) if isinstance(part, int) else f"{part.counter}.{part.timestamp}.{part.state_version}"


def _change_number(known: str, start_id: str) -> int | None:
    """Return the first number of a version of the same start; None for another one."""
    known_start_id, _, rest = known.partition(".")
    number = rest.partition(".")[0]
    return int(number) if known_start_id == start_id and number.isdigit() else None


def _without_log_bound(table: dict[str, Any], log_bound: Collection[str]) -> dict[str, Any]:
    """Return a table of offsets without the log-bound offsets, which slaves take when their log is long enough."""
    transactions = [f"{topic}@{TRANSACTION_GROUP}" for topic in (HALF_TOPIC, OP_HALF_TOPIC)]
    for name in (*transactions, *log_bound):
        table["offsetTable"].pop(name, None)
    return table


class _Topics:
    """The topics; a large table goes in pieces."""

    def __init__(self, metadata: Metadata, stats: StatsManager, start_id: str, piece_size: int) -> None:
        self._topics = metadata.topics
        self._stats = stats
        self._start_id = start_id
        self._pieces = TablePieces("topicConfigTable", piece_size)
        self._count = PieceCount()
        self._taken: dict[str, TopicConfig] = {}  # of the pieces that came so far

    def stamp(self) -> Stamp:
        return (self._topics.data_version,)

    def read(self, known: str) -> TableRead:
        return _next_piece(self._pieces, known, _version(self._start_id, self.stamp()), self._topics.as_table())

    def take(self, table: dict[str, Any], is_part: bool) -> None:
        taken = read_topics(table)
        if is_part:
            is_first, is_last = self._count.take(table[PIECE], len(table["topicConfigTable"]))
            if is_first:
                self._taken = {}
            self._taken |= taken
            if not is_last:
                return
            taken, self._taken = self._taken, {}
        for topic in self._topics.take_over(taken, read_version(table)):
            self._stats.forget_topic(topic)


class _Groups:
    """The consumer groups; a large table goes in pieces."""

    def __init__(self, metadata: Metadata, stats: StatsManager, start_id: str, piece_size: int) -> None:
        self._groups = metadata.groups
        self._pending = metadata.pending_offsets
        self._stats = stats
        self._start_id = start_id
        self._pieces = TablePieces("subscriptionGroupTable", piece_size)
        self._count = PieceCount()
        self._taken = Groups()  # of the pieces that came so far

    def stamp(self) -> Stamp:
        return (self._groups.data_version,)

    def read(self, known: str) -> TableRead:
        return _next_piece(self._pieces, known, _version(self._start_id, self.stamp()), self._groups.as_table())

    def take(self, table: dict[str, Any], is_part: bool) -> None:
        taken = read_groups(table)
        if is_part:
            is_first, is_last = self._count.take(table[PIECE], len(table["subscriptionGroupTable"]))
            if is_first:
                self._taken = Groups()
            self._taken.add(taken)
            if not is_last:
                return
            taken, self._taken = self._taken, Groups()
        for group in self._groups.take_over(taken, read_version(table)):
            self._pending.forget_group(group)
            self._stats.forget_group(group)


def _next_piece(pieces: TablePieces, known: str, version: str, table: dict[str, Any]) -> TableRead:
    piece = pieces.read(known, version, table)
    return TableRead(piece.table, bool(piece.version), piece.version, piece.is_last)


class _RequestModes:
    """Whether groups pull or pop; always sent whole."""

    def __init__(self, request_modes: RequestModes) -> None:
        self._modes = request_modes

    def stamp(self) -> Stamp:
        return (self._modes.data_version,)

    def read(self, known: str) -> TableRead:
        return TableRead(self._modes.as_table())

    def take(self, table: dict[str, Any], is_part: bool) -> None:
        self._modes.take_over(table)


class _MadeByUsers:
    """What users have made; always sent whole. A slave uses it once it is the master."""

    def __init__(self, table: MadeByUsersTable) -> None:
        self._table = table

    def stamp(self) -> Stamp:
        return (self._table.change_count,)

    def read(self, known: str) -> TableRead:
        return TableRead(self._table.as_table())

    def take(self, table: dict[str, Any], is_part: bool) -> None:
        self._table.save(table)


class _Auth:
    """Users and policies, secrets included; always sent whole. Only brokers that check their requests copy them."""

    def __init__(self, auth: AuthManager) -> None:
        self._auth = auth

    def stamp(self) -> Stamp:
        return (self._auth.data_version,)

    def read(self, known: str) -> TableRead:
        return TableRead(self._auth.as_table())

    def take(self, table: dict[str, Any], is_part: bool) -> None:
        self._auth.take_over(table)


class _Offsets:
    """The consumer offsets. They change often, so a slave with a version of the same start gets the changes since.

    A large table goes in pieces: a turn for each on the master and on the slave, and no frame
    gets too long. A piece's version is the one at the copy's begin, with the place of the next piece behind a "+".
    """

    def __init__(self, cursors: CursorManager, start_id: str, piece_size: int) -> None:
        self._cursors = cursors
        self._start_id = start_id
        self._piece_size = piece_size

    def stamp(self) -> Stamp:
        return self._cursors.change_count, self._cursors.data_version.counter

    def read(self, known: str) -> TableRead:
        cursors = self._cursors
        number = _change_number(known, self._start_id)
        log_bound = list(as_offset_table(cursors.log_bound_offsets()))
        _, _, place = known.partition("+")
        if number is not None and place.isdigit():
            piece = self._piece(int(place), number, log_bound)
            return piece or self._begin(log_bound)
        part = None if number is None else cursors.changes_since(number, self._piece_size)
        if part is not None:
            return TableRead(_without_log_bound(part, log_bound), is_part=True)
        if cursors.offset_count > self._piece_size:
            return self._begin(log_bound)
        return TableRead({**_without_log_bound(cursors.as_table(), log_bound), LOG_BOUND: log_bound})

    def _begin(self, log_bound: list[str]) -> TableRead:
        piece = self._piece(0, self._cursors.change_count, log_bound)
        assert piece is not None, "nothing is removed after the newest change"
        return piece

    def _piece(self, start: int, number: int, log_bound: list[str]) -> TableRead | None:
        found = self._cursors.piece_at(start, number, self._piece_size)
        if found is None:
            return None
        table, end = found
        version = f"{self._start_id}.{number}.{self._cursors.data_version.counter}"
        table = _without_log_bound(table, log_bound) | {PIECE: {"from": start, "isLast": end is None}}
        if end is None:
            return TableRead(table | {LOG_BOUND: log_bound}, is_part=True, version=version)
        return TableRead(table, is_part=True, version=f"{version}+{end}", is_last=False)

    def take(self, table: dict[str, Any], is_part: bool) -> None:
        assert isinstance(self._cursors, SlaveCursors), "only a slave takes tables"
        self._cursors.take_over(table, is_part=is_part)


class _OrderInfos:
    """What orderly pops handed out last. A slave with a version of the same start gets the changes since."""

    def __init__(self, order_infos: OrderInfos, start_id: str) -> None:
        self._infos = order_infos
        self._start_id = start_id

    def stamp(self) -> Stamp:
        return (self._infos.change_count,)

    def read(self, known: str) -> TableRead:
        number = _change_number(known, self._start_id)
        part = None if number is None else self._infos.changes_since(number)
        return TableRead(self._infos.as_table()) if part is None else TableRead(part, is_part=True)

    def take(self, table: dict[str, Any], is_part: bool) -> None:
        self._infos.take_over(table, is_part=is_part)


class _Delays:
    """The offsets up to which each delay level is delivered."""

    def __init__(self, delays: DelayService) -> None:
        self._delays = delays

    def stamp(self) -> Stamp:
        return self._delays.data_version, self._delays.change_count

    def read(self, known: str) -> TableRead:
        return TableRead(self._delays.as_table())

    def take(self, table: dict[str, Any], is_part: bool) -> None:
        self._delays.take_over(table)


class _PopOffsets:
    """How far queues are handed out to pops, and how far the revive topic is not needed; always sent whole."""

    def __init__(self, cursors: CursorManager) -> None:
        self._cursors = cursors

    def stamp(self) -> Stamp:
        return (self._cursors.log_bound_change_count,)

    def read(self, known: str) -> TableRead:
        return TableRead({"offsetTable": as_offset_table(self._cursors.log_bound_offsets())})

    def take(self, table: dict[str, Any], is_part: bool) -> None:
        assert isinstance(self._cursors, SlaveCursors), "only a slave takes tables"
        self._cursors.take_log_bound(table)


class _Transactions:
    """How far the half and the op queue of transactions are done with."""

    def __init__(self, transactions: Transactions, cursors: CursorManager) -> None:
        self._progress = transactions.progress
        self._cursors = cursors

    def stamp(self) -> Stamp:
        return (self._progress.change_count,)

    def read(self, known: str) -> TableRead:
        offsets = {topic: self._cursors.offsets(TRANSACTION_GROUP, topic) for topic in (HALF_TOPIC, OP_HALF_TOPIC)}
        return TableRead(
            {
                "offsetTable": {
                    f"{topic}@{TRANSACTION_GROUP}": {str(queue_id): offset for queue_id, offset in queues.items()}
                    for topic, queues in offsets.items()
                    if queues
                }
            }
        )

    def take(self, table: dict[str, Any], is_part: bool) -> None:
        assert isinstance(self._cursors, SlaveCursors), "only a slave takes tables"
        self._cursors.take_transactions(table)


class _Timers:
    """How far timer messages are delivered, as the fields of RocketMQ's ``timercheck``."""

    def __init__(self, timers: TimerService) -> None:
        self._timers = timers

    def stamp(self) -> Stamp:
        return self._timers.stamp()

    def read(self, known: str) -> TableRead:
        fields = dict(zip(FIELDS, self._timers.checkpoint_fields(), strict=True))
        return TableRead({TIMER_CHECK: fields, **self._timers.counts.as_table()})

    def take(self, table: dict[str, Any], is_part: bool) -> None:
        fields = {name: int(table[TIMER_CHECK].get(name, 0)) for name in FIELDS}
        version = (fields["stateVersion"], fields["timestamp"], fields["counter"])
        if "timingCount" in table:
            self._timers.counts.take_over(table)
        self._timers.take_over(fields[LAST_READ_TIME], fields[QUEUE_OFFSET_OF_MASTER], version)


class _Deletions:
    """Topics and the log offsets below which their records are deleted.

    A slave applies them to its own queues, also to records that are still to come. It keeps an entry that its master
    has dropped until its own log has passed it.
    """

    def __init__(self, store: MessageStore, metadata: Metadata) -> None:
        self._store = store
        self._pending = metadata.pending_offsets

    def stamp(self) -> Stamp:
        return (self._store.deletions.change_count,)

    def read(self, known: str) -> TableRead:
        return TableRead({DELETIONS: self._store.deletions.ends})

    def take(self, table: dict[str, Any], is_part: bool) -> None:
        ends = {topic: end for topic, end in table[DELETIONS].items() if isinstance(end, int)}
        for topic in self._store.delete_topics_below(ends):
            self._pending.forget_topic(topic)


class _MasterRole:
    """The master's role, ASYNC_MASTER or SYNC_MASTER: a slave that takes over keeps that promise to senders."""

    def __init__(self, sync_mode: MasterMode, master_role: SeenMasterRole) -> None:
        self._sync_mode = sync_mode
        self._master_role = master_role

    def stamp(self) -> Stamp:
        return (int(self._sync_mode.is_on),)

    def read(self, known: str) -> TableRead:
        return TableRead({MASTER_ROLE: {"role": SYNC_MASTER if self._sync_mode.is_on else ASYNC_MASTER}})

    def take(self, table: dict[str, Any], is_part: bool) -> None:
        self._master_role.note(str(table[MASTER_ROLE].get("role")))
