"""Filters one pull's records: what to deliver, where to continue, and what happens to messages that the filter fails
on.

When a worker dies at a batch, the batch is halved until the message is found. Each pull makes one try, so that no
consumer waits long; a consumer that gets nothing pulls from the same offset at once. Messages before the bad one are
delivered. So a queue never stands still, and a worker's failure skips only the message that caused it.
"""

from __future__ import annotations

import logging
from typing import NamedTuple, Protocol

from pymq.filter.running import OnError
from pymq.filterserver.classes import FilterClass
from pymq.filterserver.work import FAILED, MATCH, RecordOutcomes
from pymq.filterserver.workers import Filter, WorkerFailedError
from pymq.model.layout import RECORD_OVERHEAD_BYTES, RECORD_QUEUE_OFFSET
from pymq.model.record import MalformedRecordError

log = logging.getLogger(__name__)


class RecordFilter(Protocol):
    """The part of :class:`pymq.filterserver.workers.WorkerPool` that filtering uses."""

    async def filter_records(self, target: Filter, broker_name: str, records: bytes) -> RecordOutcomes: ...


class Span(NamedTuple):
    """The place of a record in a pull's answer, and its queue offset."""

    start: int
    end: int
    offset: int


class Filtered(NamedTuple):
    """The records to deliver, unchanged, and the offset to continue at (None: after all of them).

    ``stopped_by`` says why the queue stops at the first message, under the policy to stop.
    """

    parts: list[bytes]
    next_offset: int | None = None
    stopped_by: str = ""


def record_spans(raw: bytes) -> list[Span]:
    """Return the records of a pull's answer. Raises MalformedRecordError."""
    spans: list[Span] = []
    at, end, head = 0, len(raw), RECORD_QUEUE_OFFSET.unpack_from
    while at < end:
        if end - at < RECORD_OVERHEAD_BYTES:
            raise MalformedRecordError(f"the record at {at} is cut short: {end - at} bytes are left")
        size, offset = head(raw, at)
        if size < RECORD_OVERHEAD_BYTES or at + size > end:
            raise MalformedRecordError(f"the record at {at} says {size} bytes, but {end - at} are left")
        spans.append(Span(at, at + size, offset))
        at += size
    return spans


class Filtering:
    """Runs batches through workers and applies the error policy."""

    def __init__(self, workers: RecordFilter, broker_name: str = "", on_error: OnError = OnError.SKIP) -> None:
        """``on_error`` applies to classes that don't name a policy."""
        self.broker_name = broker_name
        self._workers = workers
        self._on_error = on_error

    async def run(self, filter_class: FilterClass, queue_id: int, raw: bytes) -> Filtered:
        """Return what to deliver of ``raw``, one or more records of a queue. Raises MalformedRecordError."""
        spans = record_spans(raw)
        tested_count, outcomes, error = await self._outcomes(filter_class, queue_id, raw, spans)
        return self._deliver(filter_class, queue_id, raw, spans, outcomes[:tested_count], error)

    async def _outcomes(
        self, filter_class: FilterClass, queue_id: int, raw: bytes, spans: list[Span]
    ) -> tuple[int, bytes, str]:
        """Return how many of the first records were tested, their outcomes, and the error of the first that failed."""
        first = spans[0].offset
        bad = filter_class.bad_messages.get((queue_id, first))
        if bad is not None:
            return 1, bytes([FAILED]), bad
        suspect_end = filter_class.suspects.pop((queue_id, first), first)
        count = _count_to_try(spans, suspect_end)
        records = raw if count == len(spans) else raw[: spans[count - 1].end]
        try:
            answer = await self._workers.filter_records(filter_class.filter, self.broker_name, records)
        except WorkerFailedError as error:
            if count > 1:
                filter_class.note_suspects(queue_id, first, spans[count - 1].offset + 1)
                return 0, b"", ""
            filter_class.note_bad(queue_id, first, str(error))
            return 1, bytes([FAILED]), str(error)
        if count < len(spans) and spans[count].offset < suspect_end:
            filter_class.note_suspects(queue_id, spans[count].offset, suspect_end)
        filter_class.stats.batches += 1
        filter_class.stats.time_us += answer.time_us
        return count, answer.outcomes, answer.error

    def _deliver(
        self, filter_class: FilterClass, queue_id: int, raw: bytes, spans: list[Span], outcomes: bytes, error: str
    ) -> Filtered:
        policy = filter_class.text.on_error or self._on_error
        stats = filter_class.stats
        next_offset = spans[len(outcomes)].offset if len(outcomes) < len(spans) else None
        why, failed_at = "", outcomes.find(FAILED)
        if failed_at >= 0:
            failed = spans[failed_at]
            if policy is OnError.STOP:
                why = "" if failed_at else self._stopped(filter_class, queue_id, failed, error)
                next_offset, outcomes = failed.offset, outcomes[:failed_at]
                stats.errors += 1
            else:
                self._log_first_error(filter_class, queue_id, failed, error, policy)
        failed_count, matched_count = outcomes.count(FAILED), outcomes.count(MATCH)
        stats.errors += failed_count
        stats.matched += matched_count
        stats.skipped += len(outcomes) - failed_count - matched_count
        delivered = (MATCH, FAILED) if policy is OnError.DELIVER else (MATCH,)
        parts = [
            raw[span.start : span.end] for span, outcome in zip(spans, outcomes, strict=False) if outcome in delivered
        ]
        return Filtered(parts, next_offset, why)

    def _stopped(self, filter_class: FilterClass, queue_id: int, span: Span, error: str) -> str:
        return (
            f"filter {filter_class.text.name} of {filter_class.group} can't judge {filter_class.topic} queue "
            f"{queue_id} offset {span.offset}: {error}; its policy is stop: correct the expression, or use skip or "
            "deliver"
        )

    def _log_first_error(
        self, filter_class: FilterClass, queue_id: int, span: Span, error: str, policy: OnError
    ) -> None:
        if filter_class.is_error_logged:
            return
        filter_class.is_error_logged = True
        log.warning(
            "filter %s of %s can't judge %s queue %d offset %d: %s; the message is %s, so are further ones",
            filter_class.text.name,
            filter_class.group,
            filter_class.topic,
            queue_id,
            span.offset,
            error,
            "delivered" if policy is OnError.DELIVER else "left out",
        )


def _count_to_try(spans: list[Span], suspect_end: int) -> int:
    """Return how many records to try: all, or half of those below ``suspect_end``, and in the end the bad one alone."""
    if suspect_end <= spans[0].offset:
        return len(spans)
    suspect_count = sum(span.offset < suspect_end for span in spans)
    return max(suspect_count // 2, 1) if suspect_count else len(spans)
