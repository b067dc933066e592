"""The tables that slaves copy: how a master tells each and how a slave takes it. One row a table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from pymq.broker.replication.slave.cursors import SlaveCursors
from pymq.config.values import ASYNC_MASTER, SYNC_MASTER
from pymq.model.tables import DataVersion

if TYPE_CHECKING:
    from pymq.broker.parts import BrokerParts

TOPICS = "topics"
GROUPS = "subscriptionGroup"
OFFSETS = "consumerOffset"
DELAYS = "delayOffset"
DELETIONS = "deletedTopics"
MASTER_ROLE = "masterRole"


# Compared in every turn; made into text for a slave alone.
Stamp = tuple[DataVersion | int, ...]


class TableRead(NamedTuple):
    """A table as it stands in its file; ``is_part``: only what changed since a version."""

    table: dict[str, Any]
    is_part: bool = False


@dataclass(frozen=True, slots=True)
class ReplicatedTable:
    """``name`` is its file's in ``config/``, if it has one, ``member`` the object in it that holds everything.

    ``start_id`` is another one at each start of a broker; ``stamp`` changes with every change since, and is cheap: it
    is looked at in every turn. ``read`` gets the version that the slave has, maybe of another master or none.
    ``take(table, is_part)`` raises StoreError or OSError when the disk fails: the table is asked for again.
    ``waits_for_log``: the table speaks of messages and must not be ahead of them.
    """

    name: str
    member: str
    start_id: str
    stamp: Callable[[], Stamp]
    read: Callable[[str], TableRead]
    take: Callable[[dict[str, Any], bool], None]
    waits_for_log: bool = False

    def version(self) -> str:
        """Changes with every change, also over restarts."""
        return ".".join([self.start_id, *map(_text, self.stamp())])


class _Side(Protocol):
    """What a broker does with one of its tables; see :class:`ReplicatedTable`."""

    def stamp(self) -> Stamp: ...

    def read(self, known: str) -> TableRead: ...

    def take(self, table: dict[str, Any], is_part: bool) -> None: ...


def replicated_tables(parts: BrokerParts, start_id: str) -> list[ReplicatedTable]:
    """In the order in which a slave takes them. ``start_id`` is another one at each start of a broker."""

    def row(name: str, member: str, side: _Side, *, waits_for_log: bool = False) -> ReplicatedTable:
        return ReplicatedTable(name, member, start_id, side.stamp, side.read, side.take, waits_for_log)

    return [
        # First, so that what was committed in a deleted topic is forgotten before offsets of a new one come.
        row(DELETIONS, DELETIONS, _Deletions(parts)),
        row(TOPICS, "topicConfigTable", _Topics(parts)),
        row(GROUPS, "subscriptionGroupTable", _Groups(parts)),
        row(OFFSETS, "offsetTable", _Offsets(parts, start_id)),
        # A delayed message counts as delivered on the slave once its log has the delivered one.
        row(DELAYS, "offsetTable", _Delays(parts), waits_for_log=True),
        row(MASTER_ROLE, MASTER_ROLE, _MasterRole(parts)),
    ]


def _text(part: DataVersion | int) -> str:
    return str(part) if isinstance(part, int) else f"{part.counter}.{part.timestamp}.{part.state_version}"


class _Topics:
    """Whole each time, at once."""

    def __init__(self, parts: BrokerParts) -> None:
        self._topics = parts.topics
        self._stats = parts.stats

    def stamp(self) -> Stamp:
        return (self._topics.data_version,)

    def read(self, known: str) -> TableRead:
        return TableRead(self._topics.as_table())

    def take(self, table: dict[str, Any], is_part: bool) -> None:
        for topic in self._topics.take_over(table):
            self._stats.forget_topic(topic)


class _Groups:
    """Whole each time, at once."""

    def __init__(self, parts: BrokerParts) -> None:
        self._groups = parts.groups
        self._pending = parts.pending_offsets
        self._stats = parts.stats

    def stamp(self) -> Stamp:
        return (self._groups.data_version,)

    def read(self, known: str) -> TableRead:
        return TableRead(self._groups.as_table())

    def take(self, table: dict[str, Any], is_part: bool) -> None:
        for group in self._groups.take_over(table):
            self._pending.forget_group(group)
            self._stats.forget_group(group)


class _Offsets:
    """Change often: a slave that has an earlier state of the same start gets what changed since."""

    def __init__(self, parts: BrokerParts, start_id: str) -> None:
        self._cursors = parts.cursors
        self._start_id = start_id

    def stamp(self) -> Stamp:
        return self._cursors.change_count, self._cursors.data_version.counter

    def read(self, known: str) -> TableRead:
        start_id, _, rest = known.partition(".")
        number = rest.partition(".")[0]
        if start_id == self._start_id and number.isdigit():
            part = self._cursors.changes_since(int(number))
            if part is not None:
                return TableRead(part, is_part=True)
        return TableRead(self._cursors.as_table())

    def take(self, table: dict[str, Any], is_part: bool) -> None:
        assert isinstance(self._cursors, SlaveCursors), "only a slave takes tables"
        self._cursors.take_over(table, is_part=is_part)


class _Delays:
    """How far the delay levels are delivered."""

    def __init__(self, parts: BrokerParts) -> None:
        self._delays = parts.delays

    def stamp(self) -> Stamp:
        return self._delays.data_version, self._delays.change_count

    def read(self, known: str) -> TableRead:
        return TableRead(self._delays.as_table())

    def take(self, table: dict[str, Any], is_part: bool) -> None:
        self._delays.take_over(table)


class _Deletions:
    """Topics and the log offsets below which their records are deleted. A slave goes by them in its own queues, for
    records that are still to come too; it keeps those that its master has forgotten until its own log has."""

    def __init__(self, parts: BrokerParts) -> None:
        self._store = parts.store
        self._pending = parts.pending_offsets

    def stamp(self) -> Stamp:
        return (self._store.deletions.change_count,)

    def read(self, known: str) -> TableRead:
        return TableRead({DELETIONS: self._store.deletions.ends})

    def take(self, table: dict[str, Any], is_part: bool) -> None:
        ends = {topic: end for topic, end in table[DELETIONS].items() if isinstance(end, int)}
        for topic in self._store.delete_topics_below(ends):
            self._pending.forget_topic(topic)


class _MasterRole:
    """So that whoever takes over goes on with what senders were promised last."""

    def __init__(self, parts: BrokerParts) -> None:
        self._sync_mode = parts.sync_mode
        self._master_monitor = parts.master_monitor

    def stamp(self) -> Stamp:
        return (int(self._sync_mode.is_on),)

    def read(self, known: str) -> TableRead:
        return TableRead({MASTER_ROLE: {"role": SYNC_MASTER if self._sync_mode.is_on else ASYNC_MASTER}})

    def take(self, table: dict[str, Any], is_part: bool) -> None:
        self._master_monitor.note_master_role(str(table[MASTER_ROLE].get("role")))
