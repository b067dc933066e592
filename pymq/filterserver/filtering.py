"""One pull's records through a filter: what is delivered, where to go on, and what becomes of messages it fails at.

A batch that a worker does not survive is halved until the message is found: one try a pull, so that no consumer waits
long; a consumer that gets nothing pulls from the same offset at once. What was judged before the message is delivered.
So a queue never stands still, and no worker's failure skips a message that could be judged.
"""

from __future__ import annotations

import logging
import struct
from typing import NamedTuple, Protocol

from pymq.filter.running import OnError
from pymq.filterserver.classes import FilterClass
from pymq.filterserver.work import FAILED, MATCH, Judged
from pymq.filterserver.workers import Filter, WorkerFailedError
from pymq.model.record import QUEUE_OFFSET_AT, RECORD_OVERHEAD_BYTES, MalformedRecordError

log = logging.getLogger(__name__)

_HEAD = struct.Struct(f">i{QUEUE_OFFSET_AT - 4}xq")  # a record's size and its offset in the queue


class Judge(Protocol):
    """What is needed of :class:`pymq.filterserver.workers.WorkerPool`."""

    async def judge(self, wanted: Filter, broker_name: str, records: bytes) -> Judged: ...


class Span(NamedTuple):
    """Where a record lies in a pull's answer, and its offset in the queue."""

    start: int
    end: int
    offset: int


class Filtered(NamedTuple):
    """The records to deliver as they were, and the offset to go on at (None: behind all of them).

    ``stopped_by`` says why the first message can't be passed, when the policy is to stop there.
    """

    parts: list[bytes]
    next_offset: int | None = None
    stopped_by: str = ""


def record_spans(raw: bytes) -> list[Span]:
    """The records of a pull's answer. Raises MalformedRecordError."""
    spans: list[Span] = []
    at, end, head = 0, len(raw), _HEAD.unpack_from
    while at < end:
        if end - at < RECORD_OVERHEAD_BYTES:
            raise MalformedRecordError(f"the record at {at} is cut short: {end - at} bytes are left")
        size, offset = head(raw, at)
        if size < RECORD_OVERHEAD_BYTES or at + size > end:
            raise MalformedRecordError(f"the record at {at} says {size} bytes, {end - at} are there")
        spans.append(Span(at, at + size, offset))
        at += size
    return spans


class Filtering:
    """Puts batches through workers and applies the policy for errors."""

    def __init__(self, judge: Judge, broker_name: str = "", on_error: OnError = OnError.SKIP) -> None:
        """``on_error`` is for classes that don't say."""
        self.broker_name = broker_name
        self._judge = judge
        self._on_error = on_error

    async def run(self, wanted: FilterClass, queue_id: int, raw: bytes) -> Filtered:
        """What to deliver of ``raw``, one or more records of a queue. Raises MalformedRecordError."""
        spans = record_spans(raw)
        judged, outcomes, error = await self._outcomes(wanted, queue_id, raw, spans)
        return self._deliver(wanted, queue_id, raw, spans, outcomes[:judged], error)

    async def _outcomes(
        self, wanted: FilterClass, queue_id: int, raw: bytes, spans: list[Span]
    ) -> tuple[int, bytes, str]:
        """How many of the first records are judged, their outcomes, and what was wrong with the first that failed."""
        first = spans[0].offset
        bad = wanted.bad_messages.get((queue_id, first))
        if bad is not None:
            return 1, bytes([FAILED]), bad
        suspect_end = wanted.suspects.pop((queue_id, first), first)
        count = _count_to_try(spans, suspect_end)
        records = raw if count == len(spans) else raw[: spans[count - 1].end]
        try:
            judged = await self._judge.judge(wanted.filter, self.broker_name, records)
        except WorkerFailedError as error:
            if count > 1:
                wanted.note_suspects(queue_id, first, spans[count - 1].offset + 1)
                return 0, b"", ""
            wanted.note_bad(queue_id, first, str(error))
            return 1, bytes([FAILED]), str(error)
        if count < len(spans) and spans[count].offset < suspect_end:
            wanted.note_suspects(queue_id, spans[count].offset, suspect_end)
        wanted.stats.batches += 1
        wanted.stats.time_us += judged.time_us
        return count, judged.outcomes, judged.error

    def _deliver(
        self, wanted: FilterClass, queue_id: int, raw: bytes, spans: list[Span], outcomes: bytes, error: str
    ) -> Filtered:
        policy = wanted.text.on_error or self._on_error
        stats = wanted.stats
        next_offset = spans[len(outcomes)].offset if len(outcomes) < len(spans) else None
        why, failed_at = "", outcomes.find(FAILED)
        if failed_at >= 0:
            failed = spans[failed_at]
            if policy is OnError.STOP:
                why = "" if failed_at else self._stopped(wanted, queue_id, failed, error)
                next_offset, outcomes = failed.offset, outcomes[:failed_at]
                stats.errors += 1
            else:
                self._tell_once(wanted, queue_id, failed, error, policy)
        failed_count, matched_count = outcomes.count(FAILED), outcomes.count(MATCH)
        stats.errors += failed_count
        stats.matched += matched_count
        stats.skipped += len(outcomes) - failed_count - matched_count
        delivered = (MATCH, FAILED) if policy is OnError.DELIVER else (MATCH,)
        parts = [
            raw[span.start : span.end] for span, outcome in zip(spans, outcomes, strict=False) if outcome in delivered
        ]
        return Filtered(parts, next_offset, why)

    def _stopped(self, wanted: FilterClass, queue_id: int, span: Span, error: str) -> str:
        return (
            f"filter {wanted.text.name} of {wanted.group} can't judge {wanted.topic} queue {queue_id} offset "
            f"{span.offset}: {error}; its policy is stop: mend the expression, or use skip or deliver"
        )

    def _tell_once(self, wanted: FilterClass, queue_id: int, span: Span, error: str, policy: OnError) -> None:
        if wanted.told_error:
            return
        wanted.told_error = True
        log.warning(
            "filter %s of %s can't judge %s queue %d offset %d: %s; the message is %s, so are further ones",
            wanted.text.name,
            wanted.group,
            wanted.topic,
            queue_id,
            span.offset,
            error,
            "delivered" if policy is OnError.DELIVER else "left out",
        )


def _count_to_try(spans: list[Span], suspect_end: int) -> int:
    """All records; half of those below ``suspect_end``, among which one is suspect, and that one alone in the end."""
    if suspect_end <= spans[0].offset:
        return len(spans)
    suspect_count = sum(span.offset < suspect_end for span in spans)
    return max(suspect_count // 2, 1) if suspect_count else len(spans)
