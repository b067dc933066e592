"""Reads one range of a queue as RecordBatches: overlaps pulls, checks answers for gaps, and reconnects.

Works with PyMQ's broker and with Apache's, which returns at most 32 messages per pull.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pymq.errors import RefusedError, UnreachableError
from pymq.filter.refusals import with_next_step
from pymq.model import sysflag
from pymq.model.inner_batch import with_single_records
from pymq.model.layout import QUEUE_OFFSET_AT, SYS_FLAG_AT
from pymq.model.record import MalformedRecordError
from pymq.security.credentials import Credentials
from pymq.spark.planning.ranges import DataLossError, QueueRange, ReadSettings
from pymq.spark.planning.remote import Remote
from pymq.spark.planning.selection import SQL92
from pymq.spark.reading.pull_window import Ask, PulledRange, PullWindow
from pymq.spark.records.decode import Decoder
from pymq.spark.records.layout import Chunk, Layout, Positions, find_fields, find_starts, integers, sound_records
from pymq.spark.records.read_buffer import ReadBuffer
from pymq.spark.records.schema import arrow_schema, check_columns
from pymq.units import format_count
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import Command, request
from pymq.wire.header import decode_header
from pymq.wire.headers.pull import PullMessageAnswer, PullMessageHeader, beyond_default

if TYPE_CHECKING:
    from pymq.spark.reading.plugin_filter import PluginFilter

log = logging.getLogger(__name__)

# The server is busy or not ready: the same pull may succeed a moment later.
RETRY_CODES = frozenset(
    {ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.FLOW_CONTROL, ResponseCode.GO_AWAY}
)
BACKOFF_FIRST_S = 0.1
BACKOFF_MAX_S = 5.0
# A master that lacks an offset which existed when planning is asked again so long; then it is lost.
BEHIND_BUDGET_S = 3.0
# A filter server that searches, by halving, for the message its workers fail on answers "pull again" less often.
PULL_AGAIN_COUNT_MAX = 64
OFFSETS_SHOWN_MAX = 10  # in one text
ACCEPT_LOSSES = "to read the others, accept losses with on-data-loss report"

Opener = Callable[[str, float], Remote]


def opener(credentials: str) -> Opener:
    """Return what opens real connections, which sign with what the reference ``credentials`` names here."""
    found = Credentials.find(credentials)
    return lambda address, timeout_s: Remote(address, timeout_s=timeout_s, credentials=found)


class RangeReader:
    """Reads one range once. ``rows``, ``lost``, ``filter_errors`` and ``bytes_read`` grow meanwhile.

    ``lost`` counts offsets of the range without a message; if the broker or a filter server filters, only those that
    it reports. ``filter_errors`` counts messages on which this reader's filter failed.
    """

    def __init__(
        self,
        part: QueueRange,
        settings: ReadSettings,
        *,
        open_remote: Opener | None = None,
        sleep: Callable[[float], None] = time.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.rows = 0
        self.lost = 0
        self.filter_errors = 0
        self.bytes_read = 0
        self._part = part
        self._settings = settings
        selection = settings.selection
        self._tags = selection.tags
        self._via_filter_server = selection.via is not None
        self._subscription, self._expression_type = selection.pull_subscription()
        self._has_gaps = self._via_filter_server or selection.sql is not None or self._tags is not None
        self._pushed_sql = selection.pushed_sql
        self._plugin = plugin_filter(settings, part) if selection.runs_here else None
        self._again_count = 0
        self._schema = arrow_schema(check_columns(settings.columns))
        columns = self._schema.names
        if self._tags is not None and "tags" not in columns:
            columns = [*columns, "tags"]
        self._decoder = Decoder(
            part.broker_name,
            columns,
            inflation_ratio_max=settings.inflation_ratio_max,
            body_errors=settings.body_errors,
            body_form=settings.body_form,
            registry=settings.registry,
            body_schema=settings.body_schema,
        )
        self._window = PullWindow(
            part.from_offset, part.to_offset, count_max=settings.pull_count_max, depth=settings.pull_depth
        )
        self._open_remote = open_remote or opener(settings.credentials)
        self._sleep = sleep
        self._monotonic = monotonic
        self._remote: Remote | None = None
        self._asked: dict[int, Ask] = {}
        self._failures = 0
        self._failing_since_s = 0.0
        self._buffer = ReadBuffer(settings.batch_size_bytes + settings.pull_size_max_bytes)
        self._chunks: list[Chunk] = []
        self._starts: list[Positions] = []
        self._pending_rows = 0
        self._pending_bytes = 0

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in order of their offsets.

        Raises DataLossError (unless losses are only reported), UnreachableError when no broker or filter server of the
        queue answers within the retry budget, RefusedError for a refusal, FilterStopError when a filter stops,
        MalformedRecordError for bytes in which nothing says where the next record begins. A record whose fields don't
        add up is a loss, as one that is gone.
        """
        settings = self._settings
        try:
            while not self._window.done:
                for segment in self._step():
                    self._take(segment)
                if self._pending_rows >= settings.batch_rows or self._pending_bytes >= settings.batch_size_bytes:
                    # Sends the next pulls before decoding, so that the broker works meanwhile.
                    self._send_pulls()
                    yield from self._flush()
            yield from self._flush()
        finally:
            self._drop_connection()

    def _step(self) -> list[PulledRange]:
        """Receive one answer; a lost connection or a busy server counts as a failure and causes a pause."""
        try:
            if self._remote is None:
                addresses = self._part.addresses
                self._remote = self._open_remote(addresses[self._failures % len(addresses)], self._settings.timeout_s)
            if not self._send_pulls():
                return []
            answer = self._remote.receive(self._buffer.room)
        except UnreachableError as error:
            self._drop_connection()
            self._failed(error)
            return []
        ask = self._asked.pop(answer.opaque, None)
        return [] if ask is None else self._on_answer(ask, answer)

    def _send_pulls(self) -> bool:
        """Fill the window; return False when the connection is lost (the next step opens a new one)."""
        try:
            while self._remote is not None and (ask := self._window.next_ask()) is not None:
                self._asked[self._remote.send(self._pull_command(ask))] = ask
        except UnreachableError as error:
            self._drop_connection()
            self._failed(error)
        return self._remote is not None

    def _on_answer(self, ask: Ask, answer: Command) -> list[PulledRange]:
        code = answer.code
        if code in RETRY_CODES:
            error = RefusedError(code, answer.remark, self._address())
            self._window.give_back(ask)
            if self._via_filter_server:
                self._drop_connection()  # another filter server may be ready
            self._failed(error)
            return []
        if code == ResponseCode.TOPIC_NOT_EXIST and self._part.identity is not None:
            return self._on_other_topic(ask, answer.remark or "the topic was deleted")
        if code not in (
            ResponseCode.SUCCESS,
            ResponseCode.PULL_NOT_FOUND,
            ResponseCode.PULL_RETRY_IMMEDIATELY,
            ResponseCode.PULL_OFFSET_MOVED,
        ):
            return self._on_refusal(ask, RefusedError(code, answer.remark, self._address()))
        next_offset = decode_header(PullMessageAnswer, answer.ext).next_begin_offset
        if code == ResponseCode.PULL_OFFSET_MOVED:
            # Below the queue's beginning the broker answers with that; beyond its end no offsets are left.
            if next_offset <= ask.start and not self._is_masters_word():
                return self._behind(ask)
            self._failures = 0
            ahead = next_offset if next_offset > ask.start else self._part.to_offset
            return self._window.answered(ask, ahead, b"", moved=True)
        if next_offset <= ask.start:
            if self._via_filter_server and code == ResponseCode.PULL_RETRY_IMMEDIATELY:
                return self._pull_again(ask, answer)
            return self._nothing_yet(ask, answer)
        self._failures = self._again_count = 0
        self._has_gaps = self._has_gaps or self._pushed_sql is not None
        return self._window.answered(ask, next_offset, answer.body if code == ResponseCode.SUCCESS else b"")

    def _on_refusal(self, ask: Ask, error: RefusedError) -> list[PulledRange]:
        """Pull again without the pushed SQL if the broker refuses it: that costs time but loses no rows."""
        if self._pushed_sql is None:
            raise with_next_step(error) if self._expression_type == SQL92 else error
        self._pushed_sql = None
        self._window.give_back(ask)
        self._drop_connection()
        return []

    def _pull_again(self, ask: Ask, answer: Command) -> list[PulledRange]:
        self._again_count += 1
        if self._again_count > PULL_AGAIN_COUNT_MAX:
            raise RefusedError(
                answer.code,
                f"no progress at offset {ask.start} of {self._part} after {PULL_AGAIN_COUNT_MAX} pulls: see the "
                "filter server's log",
                self._address(),
            )
        self._window.give_back(ask)
        return []

    def _nothing_yet(self, ask: Ask, answer: Command) -> list[PulledRange]:
        """Handle a broker without an offset that existed when planning: a slave behind its master, or a loss."""
        if not self._is_masters_word():
            return self._behind(ask)
        if self._failing_s() < min(BEHIND_BUDGET_S, self._settings.retry_budget_s):
            self._window.give_back(ask)
            self._failed(RefusedError(answer.code, answer.remark, self._address()))
            return []
        self._failures = 0
        return self._window.answered(ask, self._part.to_offset, b"", moved=True)

    def _behind(self, ask: Ask) -> list[PulledRange]:
        """Ask another server: what a slave lacks is no loss before its master says so."""
        address = self._address()
        self._window.give_back(ask)
        self._drop_connection()
        self._failed(
            UnreachableError(
                f"{self._part}: its master does not answer, and the slave at {address} ends before offset "
                f"{ask.start}: start the master, or wait until the slave has caught up"
            )
        )
        return []

    def _is_masters_word(self) -> bool:
        part = self._part
        return self._via_filter_server or (part.has_master and self._address() == part.addresses[0])

    def _on_other_topic(self, ask: Ask, why: str) -> list[PulledRange]:
        """Lose the rest of the range: its topic was deleted since it was planned."""
        if self._settings.on_data_loss == "fail":
            raise DataLossError(f"{self._part}: {why}")
        log.warning("%s: %s", self._part, why)
        self._failures = 0
        return self._window.answered(ask, self._part.to_offset, b"", moved=True)

    def _take(self, segment: PulledRange) -> None:
        """Keep a segment's records for the next batch and count the missing ones."""
        span = segment.end - segment.start
        kept = 0
        if segment.data:
            data, starts = _single_records(segment.data, segment.start)
            starts = starts[_inside(segment, data, starts)]
            kept = len(starts)
            self._chunks.append(data)
            self._starts.append(starts + self._pending_bytes)
            self._pending_rows += kept
            self._pending_bytes += len(data)
            self.bytes_read += len(data)
        missing = span - kept if not self._has_gaps or segment.moved else 0
        if missing:
            self._lose(segment, missing)

    def _lose(self, segment: PulledRange, missing: int) -> None:
        self.lost += missing
        if self._settings.on_data_loss == "fail":
            raise DataLossError(
                f"{self._part}: the broker no longer has {format_count(missing, 'message')} of [{segment.start}, "
                f"{segment.end}): they "
                "were deleted or their queue was reset; start later, or accept losses with on-data-loss report"
            )

    def _lose_unreadable(self, chunk: Chunk, starts: Positions, error: MalformedRecordError) -> None:
        offsets = integers(np.frombuffer(chunk, np.uint8), starts + QUEUE_OFFSET_AT, 8)
        text = f"{self._part}: {unreadable_text(offsets.tolist(), str(error))}"
        self.lost += len(starts)
        if self._settings.on_data_loss == "fail":
            raise DataLossError(f"{text}; {ACCEPT_LOSSES}")
        log.warning("%s", text)

    def _flush(self) -> Iterator[pa.RecordBatch]:
        """Decode what is there. Afterwards its memory is free: no batch refers to it."""
        if self._pending_rows:
            yield from self._decoded(self._buffer.joined(self._chunks), np.concatenate(self._starts))
        self._chunks, self._starts = [], []
        self._pending_rows = self._pending_bytes = 0
        if not self._window.has_early:
            self._buffer.reset()

    def _decoded(self, chunk: Chunk, starts: Positions) -> Iterator[pa.RecordBatch]:
        try:
            layout: Layout | None = find_fields(chunk, starts)
        except MalformedRecordError as error:
            good = sound_records(chunk, starts)
            self._lose_unreadable(chunk, starts[~good], error)
            starts, layout = starts[good], None
        if self._plugin is not None and len(starts):
            starts, layout = self._plugin.keep(chunk, starts), None
            self.filter_errors = self._plugin.error_count
        for batch in self._decoder.decode(chunk, starts, layout):
            kept = filter_by_tags(batch, self._tags, self._schema.names)
            if kept.num_rows:
                self.rows += kept.num_rows
                yield kept

    def _pull_command(self, ask: Ask) -> Command:
        settings = self._settings
        subscription, kind = self._subscription, self._expression_type
        if self._pushed_sql is not None:
            subscription, kind = self._pushed_sql, SQL92
        header = PullMessageHeader(
            consumer_group=settings.group,
            topic=self._part.topic,
            queue_id=self._part.queue_id,
            queue_offset=ask.start,
            max_msg_nums=ask.stop - ask.start,
            sys_flag=sysflag.PULL_SUBSCRIPTION | (sysflag.PULL_CLASS_FILTER if self._via_filter_server else 0),
            commit_offset=0,
            suspend_timeout_millis=0,
            sub_version=0,
            subscription=subscription,
            expression_type=kind,
            max_msg_bytes=settings.pull_size_max_bytes,
            pymq_max_msg_nums=beyond_default(ask.stop - ask.start),
            pymq_deleted_below=self._part.identity.deleted_below if self._part.identity is not None else None,
        )
        return request(RequestCode.PULL_MESSAGE, header)

    def _failed(self, error: Exception) -> None:
        if self._failures == 0:
            self._failing_since_s = self._monotonic()
        self._failures += 1
        if self._failing_s() >= self._settings.retry_budget_s:
            if self._via_filter_server and isinstance(error, UnreachableError):
                raise UnreachableError(
                    f"{self._part}: none of its filter servers ({', '.join(self._part.addresses)}) answers: {error}; "
                    "start one with pymq filter-server --broker and run this again"
                ) from error
            raise error
        self._sleep(min(BACKOFF_FIRST_S * 2 ** (self._failures - 1), BACKOFF_MAX_S))

    def _failing_s(self) -> float:
        return self._monotonic() - self._failing_since_s if self._failures else 0.0

    def _address(self) -> str:
        return self._remote.address if self._remote is not None else ""

    def _drop_connection(self) -> None:
        if self._remote is not None:
            self._remote.close()
            self._remote = None
        self._asked.clear()
        self._window.give_back_all()


def unreadable_text(offsets: list[int], why: str) -> str:
    """Return what says which messages are left out."""
    shown = ", ".join(map(str, offsets[:OFFSETS_SHOWN_MAX])) + (", …" if len(offsets) > OFFSETS_SHOWN_MAX else "")
    return f"{len(offsets)} messages can't be read and are left out, offsets {shown}: {why}"


def filter_by_tags(batch: pa.RecordBatch, tags: frozenset[str] | None, columns: list[str]) -> pa.RecordBatch:
    """Remove other tags with the same hash: brokers compare only hashes of tags. None: all tags are wanted."""
    if tags is None:
        return batch
    mask = pc.is_in(batch.column("tags"), value_set=pa.array(sorted(tags)))
    return batch.filter(mask).select(columns)


def plugin_filter(settings: ReadSettings, part: QueueRange) -> PluginFilter:
    """Return the filter of the settings, which runs in the reader."""
    from pymq.spark.reading.plugin_filter import PluginFilter

    return PluginFilter(settings.selection, part.broker_name)


def _single_records(data: Chunk, from_offset: int) -> tuple[Chunk, Positions]:
    """Return records and their starts, with a record for each message of an inner batch in place of its own."""
    starts = find_starts(data)
    flags = integers(np.frombuffer(data, np.uint8), starts + SYS_FLAG_AT, 4)
    if not (flags & sysflag.INNER_BATCH).any():
        return data, starts
    data = with_single_records(bytes(data), from_offset)
    return data, find_starts(data)


def _inside(segment: PulledRange, data: Chunk, starts: Positions) -> np.ndarray:
    """Return which records are in the segment: an answer may begin before it or end after it."""
    offsets = integers(np.frombuffer(data, np.uint8), starts + QUEUE_OFFSET_AT, 8)
    return (offsets >= segment.start) & (offsets < segment.end)
