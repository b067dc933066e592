"""Settings of a push consumer, each limit and interval with its unit, and the state that its parts share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pymq.client.consume_counters import ConsumeCounters
from pymq.client.instance import ClientInstance
from pymq.client.offset_moves import OffsetMoves
from pymq.client.offset_store import OffsetStore
from pymq.client.process_queue import ProcessQueue
from pymq.client.queue_offsets import QueueOffsets
from pymq.client.subscription import Subscription
from pymq.client.telemetry import Telemetry
from pymq.errors import PymqError, UsageError
from pymq.model.allocation import Strategy
from pymq.model.message import DELAY_LEVEL_MAX, MessageQueue, check_delay_level

FIRST = "first"
LAST = "last"
RECONSUME_COUNT_DEFAULT = 16
UNLIMITED = 2**31 - 1
TO_DEAD_LETTERS = -1  # as a delay level
ASSIGNED_BY = ("AVG", "AVG_BY_CIRCLE")  # the strategies that brokers know
INVISIBLE_MS_LIMITS = (5000, 300_000)  # Java: popInvisibleTime


@dataclass(frozen=True, kw_only=True)
class ConsumerSettings:
    """Settings of a push consumer; the defaults are the Java client's for each setting that it has."""

    orderly: bool = False
    broadcasting: bool = False
    consume_from: str | int = LAST  # first, last, or Unix ms: where a group without a stored offset starts
    batch_count_max: int = 1  # messages per call of the handler
    concurrency_max: int = 20  # handler calls at the same time; orderly: one per queue
    pull_count_max: int = 32
    pull_bytes_max: int = 256 * 1024
    long_poll_ms: int = 15_000
    cached_count_max: int = 1000  # per queue; above it pulling pauses
    cached_bytes_max: int = 100 * 1024 * 1024  # per queue
    max_reconsume_times: int = -1  # -1: 16 for concurrent, unlimited for orderly consumption
    delay_level: int = 0  # of retries; 0: the broker counts up from 10 s; -1: to the dead letters at once
    delay_level_max: int = DELAY_LEVEL_MAX  # the number of levels in the brokers' messageDelayLevel
    consume_timeout_s: float = 900.0  # the longest call of the handler
    suspend_ms: int = 1000  # orderly: pause before the same message again
    commit_interval_s: float = 5.0
    rebalance_interval_s: float = 20.0
    retry_interval_s: float = 1.0  # after a failed request
    stop_timeout_s: float = 10.0  # the longest wait for running handlers when the consumer stops
    trace: bool = False  # write traces of deliveries and results, for pymq message trace
    telemetry: Telemetry | None = None  # OpenTelemetry's spans of handler calls
    client_rebalance: bool = True  # False: a broker assigns the queues, and decides whether they are pulled or popped
    invisible_ms: int = 60_000  # popped messages that are not done come again after this time
    strategy: str | Strategy = "AVG"  # its name, or a function (client_id, queues, client_ids) -> queues
    offsets_path: str | Path | None = None  # broadcasting: the offsets' file; None: Java's place, with instance_name

    def check(self) -> None:
        """Raise UsageError for a value that is out of range."""
        if self.consume_from not in (FIRST, LAST) and not str(self.consume_from).isdigit():
            raise UsageError(
                f"consume_from is {self.consume_from!r}: write first, last, or a time in Unix milliseconds"
            )
        for name in ("batch_count_max", "concurrency_max", "pull_count_max", "cached_count_max", "cached_bytes_max"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise UsageError(f"{name} is {value!r}: it must be a number, at least 1")

        if not isinstance(self.offsets_path, str | Path | None) or self.offsets_path == "":
            raise UsageError(f"offsets_path is {self.offsets_path!r}: write the path of a file")
        if not self.consume_timeout_s > 0:
            raise UsageError(f"consume_timeout_s is {self.consume_timeout_s!r}: it must be a number of seconds above 0")
        if not self.client_rebalance:
            self._check_assignment()
        if self.delay_level != TO_DEAD_LETTERS:
            check_delay_level(self.delay_level, self.delay_level_max)

    def _check_assignment(self) -> None:
        if self.orderly or self.broadcasting:
            name = "orderly" if self.orderly else "broadcasting"
            raise UsageError(
                f"{name}=True excludes client_rebalance=False: brokers assign queues of other consumers only"
            )
        if self.strategy not in ASSIGNED_BY:
            raise UsageError(f"strategy={self.strategy!r}: with client_rebalance=False use {' or '.join(ASSIGNED_BY)}")
        low, high = INVISIBLE_MS_LIMITS
        if not low <= self.invisible_ms <= high:
            raise UsageError(f"invisible_ms is {self.invisible_ms!r}: use {low} to {high}")

    @property
    def pops_from_end(self) -> bool:
        """Where the group begins in a queue that it never popped; brokers know begin and end only."""
        return self.consume_from == LAST

    @property
    def reconsume_count_max(self) -> int:
        """The number of deliveries after the first one, before a message goes to the dead letters."""
        if self.max_reconsume_times >= 0:
            return self.max_reconsume_times
        return UNLIMITED if self.orderly else RECONSUME_COUNT_DEFAULT

    @property
    def uses_locks(self) -> bool:
        """True when a queue must be locked at its broker before it is read."""
        return self.orderly and not self.broadcasting


@dataclass
class ConsumerState:
    """The state that the parts of one push consumer share. ``queues`` are assigned to this member now.

    ``fail`` stops the consumer because of an error that it can't recover from.
    """

    group: str
    instance: ClientInstance
    settings: ConsumerSettings
    queue_offsets: QueueOffsets
    offsets: OffsetStore
    fail: Callable[[PymqError], None]
    moves: OffsetMoves
    subscriptions: dict[str, Subscription] = field(default_factory=dict)
    queues: dict[MessageQueue, ProcessQueue] = field(default_factory=dict)
    counters: ConsumeCounters = field(default_factory=ConsumeCounters)
