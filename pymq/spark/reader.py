"""One range of a queue as RecordBatches: pulls overlap, answers are checked for gaps, lost connections are mended.

Works against PyMQ's broker and Apache's, which answers at most 32 messages a pull however many are asked for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pymq.errors import RefusedError, UnreachableError
from pymq.model import record, sysflag
from pymq.spark.decode import Decoder
from pymq.spark.layout import Positions, find_starts, integers
from pymq.spark.pull_window import Ask, PullWindow, Segment
from pymq.spark.ranges import DataLossError, QueueRange, ReadSettings
from pymq.spark.remote import Remote
from pymq.spark.schema import arrow_schema, check_columns
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import Command, request
from pymq.wire.header import decode_header
from pymq.wire.headers.pull import PullMessageAnswer, PullMessageHeader

# The server is busy or not ready: the same pull may work a moment later.
RETRY_CODES = frozenset(
    {ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.FLOW_CONTROL, ResponseCode.GO_AWAY}
)
BACKOFF_FIRST_S = 0.1
BACKOFF_MAX_S = 5.0

Opener = Callable[[str, float], Remote]


def open_remote(address: str, timeout_s: float) -> Remote:
    """A real connection."""
    return Remote(address, timeout_s=timeout_s)


class RangeReader:
    """Reads one range once. ``rows``, ``lost`` and ``bytes_read`` count while it goes on.

    ``lost`` counts offsets of the range without a message; with a tag filter only those that the broker itself reports.
    """

    def __init__(
        self,
        part: QueueRange,
        settings: ReadSettings,
        *,
        open_remote: Opener = open_remote,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.rows = 0
        self.lost = 0
        self.bytes_read = 0
        self._part = part
        self._settings = settings
        self._tags = settings.tags
        self._schema = arrow_schema(check_columns(settings.columns))
        columns = self._schema.names
        if self._tags is not None and "tags" not in columns:
            columns = [*columns, "tags"]
        self._decoder = Decoder(part.broker_name, columns)
        self._window = PullWindow(
            part.from_offset, part.to_offset, count_max=settings.pull_count_max, depth=settings.pull_depth
        )
        self._open_remote = open_remote
        self._sleep = sleep
        self._remote: Remote | None = None
        self._asked: dict[int, Ask] = {}
        self._failures = 0
        self._chunks: list[bytes | bytearray] = []
        self._starts: list[Positions] = []
        self._pending_rows = 0
        self._pending_bytes = 0

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows in order of their offsets.

        Raises DataLossError (unless losses are only to be reported), UnreachableError when no broker of the queue
        answers after several tries, RefusedError for a refusal, MalformedRecordError for damaged bytes.
        """
        settings = self._settings
        try:
            while not self._window.done:
                for segment in self._step():
                    self._take(segment)
                if self._pending_rows >= settings.batch_rows or self._pending_bytes >= settings.batch_size_bytes:
                    # The next pulls go out before decoding, so that the broker works meanwhile.
                    self._send_pulls()
                    yield from self._flush()
            yield from self._flush()
        finally:
            self._drop_connection()

    def _step(self) -> list[Segment]:
        """One answer; a lost connection or a busy server costs a pause and counts as a failure."""
        try:
            if self._remote is None:
                addresses = self._part.addresses
                self._remote = self._open_remote(addresses[self._failures % len(addresses)], self._settings.timeout_s)
            if not self._send_pulls():
                return []
            answer = self._remote.receive()
        except UnreachableError as error:
            self._drop_connection()
            self._failed(error)
            return []
        ask = self._asked.pop(answer.opaque, None)
        return [] if ask is None else self._on_answer(ask, answer)

    def _send_pulls(self) -> bool:
        """Fills the window; False when the connection broke (the next step opens a new one)."""
        try:
            while self._remote is not None and (ask := self._window.next_ask()) is not None:
                self._asked[self._remote.send(self._pull_command(ask))] = ask
        except UnreachableError as error:
            self._drop_connection()
            self._failed(error)
        return self._remote is not None

    def _on_answer(self, ask: Ask, answer: Command) -> list[Segment]:
        code = answer.code
        if code in RETRY_CODES:
            self._window.give_back(ask)
            self._failed(RefusedError(code, answer.remark, self._address()))
            return []
        if code not in (
            ResponseCode.SUCCESS,
            ResponseCode.PULL_NOT_FOUND,
            ResponseCode.PULL_RETRY_IMMEDIATELY,
            ResponseCode.PULL_OFFSET_MOVED,
        ):
            raise RefusedError(code, answer.remark, self._address())
        next_offset = decode_header(PullMessageAnswer, answer.ext).next_begin_offset
        if code == ResponseCode.PULL_OFFSET_MOVED:
            # Below the queue's beginning the broker tells where it is; beyond its end nothing is left.
            self._failures = 0
            ahead = next_offset if next_offset > ask.start else self._part.to_offset
            return self._window.answered(ask, ahead, b"", moved=True)
        if next_offset <= ask.start:
            return self._nothing_yet(ask, answer)
        self._failures = 0
        return self._window.answered(ask, next_offset, answer.body if code == ResponseCode.SUCCESS else b"")

    def _nothing_yet(self, ask: Ask, answer: Command) -> list[Segment]:
        """The broker has nothing at an offset that it had when planning: a slave behind its master, or a loss."""
        if self._failures + 1 < self._settings.attempts:
            self._window.give_back(ask)
            self._failed(RefusedError(answer.code, answer.remark, self._address()))
            return []
        self._failures = 0
        return self._window.answered(ask, self._part.to_offset, b"", moved=True)

    def _take(self, segment: Segment) -> None:
        """Keeps a segment's records for the next batch and counts what is missing."""
        span = segment.end - segment.start
        kept = 0
        if segment.data:
            starts = find_starts(segment.data)
            starts = starts[_inside(segment, starts)]
            kept = len(starts)
            self._chunks.append(segment.data)
            self._starts.append(starts + self._pending_bytes)
            self._pending_rows += kept
            self._pending_bytes += len(segment.data)
            self.bytes_read += len(segment.data)
        missing = span - kept if self._tags is None or segment.moved else 0
        if missing:
            self._lose(segment, missing)

    def _lose(self, segment: Segment, missing: int) -> None:
        self.lost += missing
        if self._settings.on_data_loss == "fail":
            raise DataLossError(
                f"{self._part}: the broker no longer has {missing} messages of [{segment.start}, {segment.end}), they "
                "were deleted or their queue was reset: start later, or accept losses with on-data-loss report"
            )

    def _flush(self) -> Iterator[pa.RecordBatch]:
        if not self._pending_rows:
            self._chunks.clear()
            self._starts.clear()
            self._pending_bytes = 0
            return
        chunk = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        starts = np.concatenate(self._starts)
        self._chunks, self._starts = [], []
        self._pending_rows = self._pending_bytes = 0
        for batch in self._decoder.decode(chunk, starts):
            kept = self._filtered(batch)
            if kept.num_rows:
                self.rows += kept.num_rows
                yield kept

    def _filtered(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Brokers filter by a hash of the tag, so equal hashes slip through; here the texts decide."""
        if self._tags is None:
            return batch
        mask = pc.is_in(batch.column("tags"), value_set=pa.array(sorted(self._tags)))
        return batch.filter(mask).select(self._schema.names)

    def _pull_command(self, ask: Ask) -> Command:
        settings = self._settings
        header = PullMessageHeader(
            consumer_group=settings.group,
            topic=self._part.topic,
            queue_id=self._part.queue_id,
            queue_offset=ask.start,
            max_msg_nums=ask.stop - ask.start,
            sys_flag=sysflag.PULL_SUBSCRIPTION,
            commit_offset=0,
            suspend_timeout_millis=0,
            sub_version=0,
            subscription=settings.tag if self._tags is not None else "*",
            expression_type="TAG",
            max_msg_bytes=settings.pull_size_max_bytes,
        )
        return request(RequestCode.PULL_MESSAGE, header)

    def _failed(self, error: Exception) -> None:
        self._failures += 1
        if self._failures >= self._settings.attempts:
            raise error
        self._sleep(min(BACKOFF_FIRST_S * 2 ** (self._failures - 1), BACKOFF_MAX_S))

    def _address(self) -> str:
        return self._remote.address if self._remote is not None else ""

    def _drop_connection(self) -> None:
        if self._remote is not None:
            self._remote.close()
            self._remote = None
        self._asked.clear()
        self._window.give_back_all()


def _inside(segment: Segment, starts: Positions) -> np.ndarray:
    """Which records lie in the segment: an answer may begin before it or reach beyond it."""
    octets = np.frombuffer(segment.data, np.uint8)
    offsets = integers(octets, starts + record.QUEUE_OFFSET_AT, 8)
    return (offsets >= segment.start) & (offsets < segment.end)
