"""ApacheCopy: copies the tables of a RocketMQ master, with the requests of its own slaves; each table whole.

Java: SlaveSynchronize.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from pymq.broker.metadata.groups import GroupManager
from pymq.broker.metadata.table_reading import read_version
from pymq.broker.metadata.table_saver import TableSaver
from pymq.broker.metadata.topics import TopicManager
from pymq.broker.replication.slave.table_taker import TableTaker, UnusableTableError
from pymq.broker.replication.tables.replicated_tables import DELAYS, GROUPS, OFFSETS, TIMER_CHECK, TOPICS
from pymq.errors import PymqError, StoreError
from pymq.model import fastjson, names
from pymq.store.disk.timer_checkpoint import read_timer_check
from pymq.store.store import MessageStore
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import Command, request
from pymq.wire.streams import Network

log = logging.getLogger(__name__)

ASK_TIMEOUT_MS = 3000
REQUEST_MODES = "request modes"
TIMER_METRICS = "timer metrics"
_LOG_END = "commitLogMaxOffset"  # in the runtime table (28)

Done = Callable[[str], None]
IsCurrent = Callable[[str], bool]


class _Step(NamedTuple):
    code: int
    table: str


_STEPS = (
    _Step(RequestCode.GET_ALL_TOPIC_CONFIG, TOPICS),
    _Step(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, GROUPS),
    _Step(RequestCode.GET_ALL_CONSUMER_OFFSET, OFFSETS),
    _Step(RequestCode.GET_ALL_DELAY_OFFSET, DELAYS),
    _Step(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE, REQUEST_MODES),
    _Step(RequestCode.GET_TIMER_METRICS, TIMER_METRICS),
    _Step(RequestCode.GET_TIMER_CHECK_POINT, TIMER_CHECK),
)
# These tables count messages as delivered, so the slave's log must have the messages first.
_WAITING = frozenset({DELAYS, TIMER_CHECK})


class ApacheCopy:
    """Runs one round at a time.

    ``kept`` has savers for tables that PyMQ does not use; a RocketMQ broker that opens the directory later does.
    """

    def __init__(
        self,
        *,
        network: Network,
        store: MessageStore,
        topics: TopicManager,
        groups: GroupManager,
        taker: TableTaker,
        kept: Mapping[str, TableSaver],
    ) -> None:
        self._network = network
        self._store = store
        self._topics = topics
        self._groups = groups
        self._taker = taker
        self._kept = kept
        self._taken: dict[str, bytes] = {}  # table -> the body it was taken from
        self._address = ""
        self._is_current: IsCurrent = lambda address: False
        self._done: Done = lambda problem: None
        self._log_end = 0

    def forget(self) -> None:
        """Take all tables in the next round, because the master is another one or the slave's tables changed."""
        self._taken.clear()

    def start(self, address: str, is_current: IsCurrent, done: Done) -> None:
        """Ask ``address`` for every table; take none once ``is_current(address)`` returns False.

        ``done`` gets the reason of an early end, or an empty text.
        """
        self._address, self._is_current, self._done = address, is_current, done
        self._ask(0)

    def _ask(self, number: int) -> None:
        if number == len(_STEPS):
            self._done("")
            return
        # Records that are in our log before the master answers were in its log when it answered.
        self._log_end = self._store.dispatched_end
        command = request(_STEPS[number].code, None)
        self._network.ask(self._address, command, lambda answer: self._answered(number, answer), ASK_TIMEOUT_MS)

    def _answered(self, number: int, answer: Command | str) -> None:
        if isinstance(answer, str):
            self._done(answer)
        elif not self._is_current(self._address):
            self._done("this broker no longer follows it")
        elif answer.code != ResponseCode.SUCCESS or self._taken.get(_STEPS[number].table) == answer.body:
            self._ask(number + 1)  # an older version may lack a code
        elif _STEPS[number].table in _WAITING:
            self._ask_log_end(number, answer.body)
        else:
            self._take(number, answer.body)

    def _ask_log_end(self, number: int, body: bytes) -> None:
        """Ask where the master's log ends now: all messages that the table counts as delivered lie before that."""

        def answered(answer: Command | str) -> None:
            if isinstance(answer, str):
                self._done(answer)
            elif not self._is_current(self._address):
                self._done("this broker no longer follows it")
            else:
                self._take(number, body, answer.body)

        command = request(RequestCode.GET_BROKER_RUNTIME_INFO, None)
        self._network.ask(self._address, command, answered, ASK_TIMEOUT_MS)

    def _take(self, number: int, body: bytes, runtime_info: bytes = b"") -> None:
        name = _STEPS[number].table
        try:
            table = {TIMER_CHECK: read_timer_check(body)} if name == TIMER_CHECK else fastjson.loads(body)
            if name in self._kept:
                self._keep(name, body, table)
            elif name == TOPICS:
                self._take_topics(table)
            elif name != GROUPS or read_version(table) != self._groups.data_version:
                self._taker.take(name, table, master_log_end=_log_end_in(runtime_info) if name in _WAITING else -1)
        except (PymqError, OSError, AttributeError, ValueError) as error:
            self._done(f"its table {name} could not be taken: {error}")
            return
        if name not in self._kept:
            self._taken[name] = body
        self._ask(number + 1)

    def _take_topics(self, table: dict[str, Any]) -> None:
        """Take the topics and delete the queues of topics that are gone.

        The master does not say below which offset a topic was deleted. All records that were here when it was asked are
        below that offset. Later records stay until the topic is used again; its offsets then begin at 0. A version that
        went back is not a deletion: the master lost its table.
        """
        before, mine = set(self._topics.all()), self._topics.data_version
        theirs = read_version(table)
        if theirs == mine:
            return
        self._taker.take(TOPICS, table)
        gone = sorted(name for name in before - set(self._topics.all()) if not names.is_system_topic(name))
        if gone and theirs.counter < mine.counter:
            log.warning(
                "the master's topics went back from version %d to %d: the queues of the missing topics %s are kept",
                mine.counter, theirs.counter, ", ".join(gone),
            )  # fmt: skip
        elif gone:
            self._store.delete_topics_below(dict.fromkeys(gone, self._log_end))

    def _keep(self, name: str, body: bytes, table: dict[str, Any]) -> None:
        def saved(error: StoreError | OSError | None) -> None:
            if error is None:
                self._taken[name] = body
            else:
                log.warning("the master's table %s could not be saved, the next try follows: %s", name, error)

        if not self._kept[name].is_busy:
            self._kept[name].save_soon(lambda: table, saved)


def _log_end_in(runtime_info: bytes) -> int:
    """Return where the master's log ends, by its runtime table. Raises UnusableTableError."""
    text = str((fastjson.loads(runtime_info).get("table") or {}).get(_LOG_END))
    if not text.isdigit():
        raise UnusableTableError(f"its runtime table (28) has no number {_LOG_END}")
    return int(text)
