"""MetadataCopy: keeps a slave's topics, groups, offsets and delivery progress equal to its master's.

It also sends the offsets that consumers committed on the slave. A PyMQ master answers as soon as something differs, so
a change arrives in some milliseconds.

A round copies the tables that differ, in one or more requests, and then sends the pending offsets. One round runs at a
time. The offsets are sent after the tables, which may make some of them void. A round that waits for a change ends
early for new pending offsets and for a new master.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from pymq.broker.addresses import own_address
from pymq.broker.metadata.pending_offsets import PendingOffsets
from pymq.broker.replication.slave.apache_copy import REQUEST_MODES, TIMER_METRICS, ApacheCopy
from pymq.broker.replication.slave.offset_push import OffsetPush
from pymq.broker.replication.slave.table_taker import TableTaker
from pymq.broker.replication.tables.replicated_tables import OFFSETS
from pymq.broker.runtime import Runtime
from pymq.errors import PymqError
from pymq.model.strict_json import decode_json
from pymq.wire.bodies_replication import HaClientState, MetadataTables, MetadataVersions
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import Command, request

if TYPE_CHECKING:
    from pymq.broker.messages.delays import DelayService
    from pymq.broker.metadata.config_tables import ConfigTables
    from pymq.broker.metadata.metadata import Metadata
    from pymq.broker.replication.tables.replicated_tables import ReplicatedTable
    from pymq.store.store import MessageStore

log = logging.getLogger(__name__)

ASK_TIMEOUT_MS = 3000
WAIT_MS = 10_000  # how long the master may wait for a change; it waits at most table_requests.HOLD_MS_MAX
APACHE_INTERVAL_MS = 3000  # a RocketMQ master sends whole tables each time; its own slaves ask every 10 s


class MetadataCopy:
    """Copies from the master at ``master()``, the one whose log this slave follows; empty without one.

    Each :meth:`tick` calls ``savers``, which save what was taken.
    """

    def __init__(
        self,
        runtime: Runtime,
        *,
        master: Callable[[], str],
        taker: TableTaker,
        apache: ApacheCopy,
        pending: PendingOffsets,
        savers: Iterable[Callable[[], object]],
        on_log_end: Callable[[int], None] = lambda log_end: None,
    ) -> None:
        """``on_log_end`` gets the end of the master's log."""
        self._network = runtime.network
        self._clock = runtime.clock
        self._config = runtime.config
        self._own_address = own_address(runtime.config)
        self._master = master
        self._taker = taker
        self._apache = apache
        self._pending = pending
        self._push = OffsetPush(runtime.network, pending, self._ask_for_all_offsets)
        self._savers = tuple(savers)
        self._on_log_end = on_log_end
        self._address = ""
        self._is_apache = False
        self._versions: dict[str, str] = {}  # by table, as the master sent them
        self._start_id = ""
        self._is_busy = False
        self._question: object = None  # identifies the present request for tables
        self._is_waiting = False  # the master may answer it late
        self._is_closed = False
        self._next_ms = runtime.clock.monotonic_ms()
        self._asked_ms = 0
        self._equal_ms: int | None = None
        self._asked_fence = 0  # the fence of the last answer in this round
        self._equal_fence = 0
        self.problem = ""

    @property
    def age_ms(self) -> int:
        """The time since the tables were known to equal the master's, in milliseconds; -1 if never since the start.

        It grows up to a little more than ``WAIT_MS`` while nothing changes.
        """
        return -1 if self._equal_ms is None else self._clock.monotonic_ms() - self._equal_ms

    @property
    def fence(self) -> int:
        """The number of the master's write fence whose tables this slave has taken, all of them; 0 for none."""
        return 0 if self._taker.is_holding else self._equal_fence

    def tick(self) -> None:
        """Start a round when one is due. Call it several times a second."""
        self._take_reached()
        for save in self._savers:
            save()
        if self._is_waiting and self._should_end_early():
            self._end_early()
        if self._is_busy or self._is_closed or self._clock.monotonic_ms() < self._next_ms:
            return
        self._note_master(self._master())
        if self._address:
            self._is_busy = True
            self._start_round()

    def close(self) -> None:
        """Send no further requests, and ignore their answers."""
        self._is_closed = True
        self._push.close()

    def _should_end_early(self) -> bool:
        is_time = self._clock.monotonic_ms() >= self._next_ms
        return not self._is_current(self._address) or (is_time and self._push.has_work)

    def _end_early(self) -> None:
        """Ignore the answer to the present request. The next one gets the same changes."""
        self._question = None
        self._is_waiting = self._is_busy = False

    def _note_master(self, address: str) -> None:
        if address != self._address:
            # Another broker may have the same address by now.
            self._is_apache = False
            self._address = address

    def _start_round(self) -> None:
        if self._pending.take_forgotten():
            self._ask_for_all_offsets()
        interval_ms = APACHE_INTERVAL_MS if self._is_apache else self._config.slave_sync_interval_ms
        self._asked_ms, self._asked_fence = self._clock.monotonic_ms(), 0
        self._next_ms = self._asked_ms + interval_ms
        if self._is_apache:
            self._apache.start(self._address, self._is_current, self._tables_done)
        else:
            self._ask_tables()

    def _ask_tables(self) -> None:
        address, question = self._address, object()
        wait_ms = 0 if self._push.has_work else WAIT_MS
        body = msgspec.json.encode(MetadataVersions(versions=self._versions, slave=self._own_address, wait_ms=wait_ms))
        command = request(RequestCode.PYMQ_COPY_METADATA, None, body)
        self._question, self._is_waiting = question, wait_ms > 0

        def answered(answer: Command | str) -> None:
            if self._question is question:
                self._is_waiting = False
                self._answered(address, answer)

        self._network.ask(address, command, answered, wait_ms + ASK_TIMEOUT_MS)

    def _answered(self, address: str, answer: Command | str) -> None:
        if isinstance(answer, str):
            self._end_round(answer)
        elif not self._is_current(address):
            self._end_round("this broker no longer follows it")
        elif answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            self._is_apache = True
            self._taker.drop_held()
            self._apache.forget()
            self._versions.clear()
            self._start_round()
        elif answer.code != ResponseCode.SUCCESS:
            self._end_round(f"code {answer.code}: {answer.remark}")
        else:
            self._take(answer.body)

    def _take(self, body: bytes) -> None:
        try:
            tables = decode_json(body, MetadataTables)
            self._on_log_end(tables.log_end)
            self._asked_fence = tables.fence
            self._note_held(tables.held_ms, had_news=bool(tables.versions))
            self._note_start(tables.versions)
            for name, version in tables.versions.items():
                raw = tables.tables.get(name)
                if raw is not None:
                    table = decode_json(raw, dict[str, Any])
                    self._taker.take(name, table, is_part=name in tables.parts, master_log_end=tables.log_end)
                self._versions[name] = version
        except (PymqError, OSError) as error:
            self._end_round(f"its tables could not be taken: {error}")
            return
        if tables.more and tables.versions:
            self._ask_tables()
        else:
            self._tables_done("")

    def _note_held(self, held_ms: int, *, had_news: bool) -> None:
        """Account for the time that the master held the request: it read its tables that much later."""
        held_ms = max(0, min(held_ms, self._clock.monotonic_ms() - self._asked_ms))
        self._asked_ms += held_ms
        if had_news:
            self._next_ms += held_ms

    def _note_start(self, versions: dict[str, str]) -> None:
        """Drop waiting tables after a restart of the master, which may have lost a part of its log.

        Versions begin with an id of the master's start.
        """
        for version in versions.values():
            start_id = version.partition(".")[0]
            if start_id != self._start_id:
                self._start_id = start_id
                self._taker.drop_held()

    def _ask_for_all_offsets(self) -> None:
        """Ask for all offsets in the next round: the slave differs, but no change of the master shows it."""
        self._versions.pop(OFFSETS, None)
        self._apache.forget()

    def _tables_done(self, problem: str) -> None:
        if problem:
            self._end_round(problem)
        else:
            self._push.start(self._address, self._end_round, is_apache=self._is_apache)

    def _end_round(self, problem: str) -> None:
        self._is_busy = False
        if self._is_closed:
            return
        if problem and problem != self.problem:
            log.warning("topics, groups and offsets could not be copied from master %s: %s", self._address, problem)
        elif self.problem and not problem:
            log.info("topics, groups and offsets are copied from master %s again", self._address)
        self.problem = problem
        if not problem:
            self._equal_ms, self._equal_fence = self._asked_ms, self._asked_fence

    def _is_current(self, address: str) -> bool:
        return not self._is_closed and address == self._master()

    def _take_reached(self) -> None:
        try:
            self._taker.take_reached()
        except (PymqError, OSError) as error:
            log.warning("a table of master %s could not be taken: %s", self._address, error)


class HaClientView(Protocol):
    """What is asked of :class:`pymq.broker.replication.slave.ha_client.HaClient` for the status."""

    def state(self) -> HaClientState: ...


class HaClientAndTables:
    """A slave's state for the status: that of the HaClient, with the tables' age and the problem of either."""

    def __init__(self, ha_client: HaClientView, copy: MetadataCopy) -> None:
        self._ha_client = ha_client
        self._copy = copy

    def state(self) -> HaClientState:
        state = self._ha_client.state()
        state.metadata_age_ms = self._copy.age_ms
        state.metadata_fence = self._copy.fence
        if self._copy.problem and not state.problem:
            state.problem = f"topics, groups and offsets are not copied: {self._copy.problem}"
        return state


class FollowedMaster(Protocol):
    """The part of :class:`pymq.broker.replication.slave.ha_client.HaClient` that is needed here."""

    @property
    def is_following(self) -> bool: ...
    @property
    def master_address(self) -> str: ...
    def note_master_end(self, log_end: int) -> None: ...


def metadata_copy(
    runtime: Runtime,
    *,
    store: MessageStore,
    metadata: Metadata,
    delays: DelayService,
    ha_client: FollowedMaster,
    tables: Sequence[ReplicatedTable],
    config_tables: ConfigTables,
) -> MetadataCopy:
    """Return the copier of ``tables`` from the master that ``ha_client`` follows."""
    taker = TableTaker(tables, lambda: store.physical_max_offset)
    return MetadataCopy(
        runtime,
        master=lambda: ha_client.master_address if ha_client.is_following else "",
        taker=taker,
        apache=ApacheCopy(
            network=runtime.network,
            store=store,
            topics=metadata.topics,
            groups=metadata.groups,
            taker=taker,
            kept={
                REQUEST_MODES: config_tables.saver("messageRequestMode.json", "messageRequestModeMap"),
                TIMER_METRICS: config_tables.saver("timermetrics", "timingCount"),
            },
        ),
        pending=metadata.pending_offsets,
        savers=(metadata.cursors.tick, delays.tick, metadata.pending_offsets.tick),
        on_log_end=ha_client.note_master_end,
    )
