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

_I32 = struct.Struct(">i")
_I64 = struct.Struct(">q")


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
    at, end = 0, len(raw)
    while at < end:
        if end - at < RECORD_OVERHEAD_BYTES:
            raise MalformedRecordError(f"the record at {at} is cut short: {end - at} bytes are left")
        (size,) = _I32.unpack_from(raw, at)
        if size < RECORD_OVERHEAD_BYTES or at + size > end:
            raise MalformedRecordError(f"the record at {at} says {size} bytes, {end - at} are there")
        spans.append(Span(at, at + size, _I64.unpack_from(raw, at + QUEUE_OFFSET_AT)[0]))
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
        parts: list[bytes] = []
        for span, outcome in zip(spans, outcomes, strict=False):
            if outcome == FAILED:
                stats.errors += 1
                if policy is OnError.STOP:
                    why = self._stopped(wanted, queue_id, span, error) if span is spans[0] else ""
                    return Filtered(parts, span.offset, why)
                self._tell_once(wanted, queue_id, span, error, policy)
            wanted_here = outcome == MATCH or (outcome == FAILED and policy is OnError.DELIVER)
            if wanted_here:
                parts.append(raw[span.start : span.end])
            stats.matched += outcome == MATCH
            stats.skipped += outcome not in (MATCH, FAILED)
        next_offset = spans[len(outcomes)].offset if len(outcomes) < len(spans) else None
        return Filtered(parts, next_offset)

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
    suspect_count = sum(span.offset < suspect_end for span in spans)
    return max(suspect_count // 2, 1) if suspect_count else len(spans)
