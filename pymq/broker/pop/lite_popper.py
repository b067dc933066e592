"""LitePopper: hands out messages of lite topics, of each in order.

A lite topic gives a group nothing else until all that it gave is acknowledged or visible again, as a queue does for
orderly pops. Java: PopLiteMessageProcessor.
"""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from pymq.broker.metadata.metadata import Metadata
from pymq.broker.pop.lite_offsets import LiteOffsets
from pymq.broker.pop.lite_subscriptions import LiteClient, LiteSubscriptions
from pymq.broker.pop.ordered_queues import OrderedQueue, OrderedQueues
from pymq.broker.pop.popper import without_receipt
from pymq.broker.runtime import Runtime
from pymq.errors import PymqError, StoreError
from pymq.model import properties as props
from pymq.model.lite_topics import light_queue_name
from pymq.model.record import MalformedRecordError, decode_record, encode_message

if TYPE_CHECKING:
    from pymq.broker.messages.retries import Retries
    from pymq.broker.messages.writer import Writer
    from pymq.broker.stats.stats_manager import StatsManager
    from pymq.model.order_info import OrderInfo
    from pymq.store.store import LightEntry, MessageStore

log = logging.getLogger(__name__)

# Lite topics that a pop looks at before others have their turn: some milliseconds.
LOOKS_A_POP: Final = 1000
# After a failed commit, as for a full disk: dead letters that failed at once again would leave nobody a turn.
TRY_AGAIN_MS: Final = 5000
_RECEIPT_NAME = props.POP_CK.encode() + b"\x01"


@dataclass(frozen=True, slots=True)
class LiteAsk:
    """What a lite pop wants. ``attempt_id``: of a pop that repeats one; ``user``: who proved to have sent it."""

    group: str
    client_id: str
    user: str
    count: int
    invisible_ms: int
    attempt_id: str | None = None


@dataclass(slots=True)
class LitePopped:
    """What a lite pop found. ``counts`` says of each message how often it was handed out before."""

    pop_time_ms: int
    records: list[bytes | memoryview] = field(default_factory=list)
    counts: list[str] = field(default_factory=list)
    size_bytes: int = 0
    problem: StoreError | OSError | None = None  # of a lite topic that could not be read
    has_more: bool = False  # lite topics that it has not looked at


class LitePopper:
    """Reads light queues for pops. What is handed out is noted at once; dead letters count with the turn's commit."""

    def __init__(
        self,
        runtime: Runtime,
        *,
        metadata: Metadata,
        store: MessageStore,
        writer: Writer,
        retries: Retries,
        stats: StatsManager,
        subscriptions: LiteSubscriptions,
        ordered_queues: OrderedQueues,
        offsets: LiteOffsets,
    ) -> None:
        self._config = runtime.config
        self._clock = runtime.clock
        self._cursors = metadata.cursors
        self._groups = metadata.groups
        self._store = store
        self._lights = store.lights
        self._writer = writer
        self._retries = retries
        self._stats = stats
        self._subscriptions = subscriptions
        self._ordered = ordered_queues
        self._offsets = offsets
        self._dying: set[OrderedQueue] = set()  # lite topics with dead letters of a commit to come
        self._refused: deque[tuple[int, OrderedQueue]] = deque()  # those of a failed commit, and when (monotonic ms)

    def pop(self, client: LiteClient, ask: LiteAsk, now_ms: int) -> LitePopped:
        """Hand out messages of a client's lite topics.

        Raises StoreError or OSError when nothing is found and a lite topic can't be read.
        """
        client.pop_ms = now_ms
        popped = LitePopped(now_ms)
        if ask.attempt_id is not None:
            if ask.attempt_id == client.last_attempt:
                for lite in client.last_lites:
                    self._subscriptions.mark(client.group, lite)
            client.last_attempt, client.last_lites = ask.attempt_id, []
        unread = []
        for number, lite in enumerate(self._subscriptions.take_due(client)):
            if number == LOOKS_A_POP:
                popped.has_more = True
                unread.append(lite)
                break
            if len(popped.records) >= ask.count or popped.size_bytes >= self._config.max_transfer_bytes:
                unread.append(lite)
                break
            try:
                if self._pop_lite(client, ask, lite, popped) and not ask.invisible_ms:
                    unread.append(lite)  # visible again at once
            except (StoreError, OSError) as error:  # messages of other lite topics may be handed out already
                popped.problem = error
                unread.append(lite)
        for lite in unread:
            self._subscriptions.mark(client.group, lite)
        if not popped.records and popped.problem is not None:
            raise popped.problem
        return popped

    def _pop_lite(self, client: LiteClient, ask: LiteAsk, lite: str, popped: LitePopped) -> bool:
        """Add messages of one lite topic to ``popped``; return False when it gives none."""
        group = client.group
        queue = OrderedQueue(light_queue_name(group.parent, lite), group.name, 0)
        if queue in self._dying or self._ordered.is_blocked(queue, ask.attempt_id):
            return False  # it is due again when that is over
        start = self._offsets.start(group.name, group.parent, lite)
        entries = self._lights.entries(group.parent, lite, start, ask.count - len(popped.records))
        if not entries or self._bury(queue, lite, entries):
            return False
        if self._offsets.committed(group.name, group.parent, lite) < 0:
            self._cursors.check_room()
        offsets: list[int] = []
        records: list[bytes | memoryview] = []
        size_bytes = popped.size_bytes
        for entry in entries:
            if records and size_bytes + entry.size_bytes > self._config.max_transfer_bytes:
                break
            record = self._store.record_at(entry.physical_offset)
            offsets.append(entry.queue_offset)
            records.append(_without_receipt(record))
            size_bytes += len(record)
        info = self._ordered.hand_out(queue, ask.attempt_id, popped.pop_time_ms, ask.invisible_ms, offsets)
        popped.records += records
        popped.counts += [_count_text(info, each) for each in offsets]
        self._stats.messages_got(group.name, group.parent, len(records), size_bytes - popped.size_bytes)
        popped.size_bytes = size_bytes
        if ask.attempt_id is not None:
            client.last_lites.append(lite)
        return True

    def _bury(self, queue: OrderedQueue, lite: str, entries: list[LightEntry]) -> bool:
        """Make dead letters of the first messages if the group's last try of them is over. True when it did."""
        config = self._groups.get(queue.group)
        tries_max = 1 + max(0, config.retry_max_times) if config is not None else 0
        if not tries_max or self._ordered.tries(queue, entries[0].queue_offset) < tries_max:
            return False
        next_offset = entries[0].queue_offset
        try:
            for entry in entries:
                if self._ordered.tries(queue, entry.queue_offset) < tries_max:
                    break
                if not self._ordered.is_acked(queue, entry.queue_offset):
                    message = decode_record(self._store.record_at(entry.physical_offset))
                    self._retries.bury(message, queue.group, message.topic)
                next_offset = entry.queue_offset + 1
        except (PymqError, MalformedRecordError) as error:
            if next_offset == entries[0].queue_offset:
                log.warning("a message of lite topic %s can't become a dead letter of %s: %s", lite, queue.group, error)
                return False  # it comes again
        self._dying.add(queue)
        self._writer.when_committed(partial(self._buried, queue, lite, next_offset))
        return True

    def _buried(self, queue: OrderedQueue, lite: str, next_offset: int, is_stored: bool) -> None:
        """Go on behind dead letters once they are in the log."""
        if is_stored:
            self._dying.discard(queue)
            self._ordered.move(queue, next_offset)
            self._ordered.on_free(queue.topic, queue.group)
        else:
            self._refused.append((self._clock.monotonic_ms(), queue))

    def tick(self) -> None:
        """Let dead letters of failed commits be tried again."""
        limit_ms = self._clock.monotonic_ms() - TRY_AGAIN_MS
        while self._refused and self._refused[0][0] <= limit_ms:
            _, queue = self._refused.popleft()
            self._dying.discard(queue)
            self._ordered.on_free(queue.topic, queue.group)


def _count_text(info: OrderInfo, offset: int) -> str:
    count = info.counts.get(offset, 0)
    return f"0 qo0%{offset} {count}" if count else "0"


def _without_receipt(record: memoryview) -> bytes | memoryview:
    """Return a record without a receipt: its producer may have forwarded a message that had one."""
    if _RECEIPT_NAME not in bytes(record):
        return record
    message = decode_record(record)
    return encode_message(message, properties=without_receipt(message.raw_properties))
