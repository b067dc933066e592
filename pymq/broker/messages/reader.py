"""Reader: reads the records for a pull's answer, and gives the result one of RocketMQ's response codes."""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

from pymq.broker.messages.message_filter import MessageFilter
from pymq.clock import Clock
from pymq.config import BrokerConfig
from pymq.errors import PymqError
from pymq.model.names import RETRY_PREFIX
from pymq.model.properties import RETRY_TOPIC
from pymq.model.record import MalformedRecordError, decode_record
from pymq.store.store import Accept, GetResult, GetStatus, MessageStore, Pace
from pymq.wire.codes import ResponseCode
from pymq.wire.headers.pull import PULL_COUNT_MAX

# A read that evaluates an expression ends after this time, wherever it is: the consumer pulls on from there.
EVALUATION_MS = 10

_CODES = {
    GetStatus.FOUND: ResponseCode.SUCCESS,
    GetStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.MESSAGE_WAS_REMOVING: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.OFFSET_FOUND_NULL: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    GetStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
}


class ReadOutcome(NamedTuple):
    """A read with its response code."""

    code: int
    result: GetResult


class Reader:
    """Reads for pulls, within the limits of one answer."""

    def __init__(self, store: MessageStore, config: BrokerConfig, clock: Clock) -> None:
        self._store = store
        self._config = config
        self._clock = clock

    def read(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        count: int,
        size_bytes: int | None,
        message_filter: MessageFilter,
        wide_count: int | None = None,
    ) -> ReadOutcome:
        """Return up to ``count`` matching messages from ``offset`` on, and no more than the broker's limit.

        ``wide_count`` stands in for both when the client says that it takes more (``pymq_max_msg_nums``). The first
        message is returned at any size. ``size_bytes`` is the client's limit, capped by the broker's.
        """
        config = self._config
        limit = config.max_transfer_bytes
        if size_bytes is not None and size_bytes > 0:
            limit = min(size_bytes, limit)
        codes, accept, prefilter = message_filter[:3]
        count = min(count, config.max_transfer_count) if wide_count is None else min(wide_count, PULL_COUNT_MAX)
        if topic.startswith(RETRY_PREFIX):
            accept = self._without_deleted(accept)
        pace = None if accept is None else self._pace(message_filter)
        result = self._store.get(topic, queue_id, offset, max(1, count), limit, codes, accept, prefilter, pace)
        return ReadOutcome(response_code(result.status, offset), result)

    def _without_deleted(self, accept: Accept | None) -> Accept | None:
        """Return what also leaves out retries of a topic that was deleted since: nothing of it comes back."""
        deletions = self._store.deletions
        if not deletions.ends:
            return accept

        def accepts(record: memoryview) -> bool:
            with suppress(MalformedRecordError):  # such a record is left out by its reader, who says so
                message = decode_record(record)
                if deletions.covers(message.properties.get(RETRY_TOPIC, ""), message.physical_offset):
                    return False
            return accept is None or accept(record)

        return accepts

    def any_accepted(self, topic: str, queue_id: int, offset: int, message_filter: MessageFilter) -> bool:
        """Return True when the filter's record test takes a message from ``offset`` on, or when one read can't tell."""
        pace = self._pace(message_filter)
        try:
            result = self._store.get(topic, queue_id, offset, 1, 1, accept=message_filter.accept, pace=pace)
        except (PymqError, OSError):
            return True  # the pull meets the same error and answers with it
        return result.count > 0 or result.next_offset < result.max_offset

    def _pace(self, message_filter: MessageFilter) -> Pace:
        end_ms = self._clock.monotonic_ms() + EVALUATION_MS
        return Pace(message_filter.step_count, lambda: self._clock.monotonic_ms() >= end_ms)

    def deleted_below(self, topic: str) -> int:
        """Return the physical offset below which the topic's records are deleted: each deletion raises it."""
        return self._store.deletions.end(topic)

    def ends(self, topic: str, queue_id: int) -> tuple[int, int]:
        """Return a queue's first offset and its next one; zeros for a queue that never had a message."""
        return self._store.min_offset(topic, queue_id), self._store.max_offset(topic, queue_id)


def response_code(status: GetStatus, offset: int) -> int:
    """Return the pull's response code. An empty or unknown queue means "moved" unless the consumer asks from 0."""
    code = _CODES.get(status)
    if code is None:  # NO_MESSAGE_IN_QUEUE, NO_MATCHED_LOGIC_QUEUE
        return ResponseCode.PULL_OFFSET_MOVED if offset else ResponseCode.PULL_NOT_FOUND
    return code
