"""Reads one range of a queue from a store directory as RecordBatches; checks each record before it is decoded."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pymq.errors import UsageError
from pymq.filter.raw_properties import SEPARATOR
from pymq.filter.sql92 import compile_sql
from pymq.model import sysflag
from pymq.model.inner_batch import with_single_records
from pymq.model.javahash import tags_code
from pymq.model.layout import (
    BODY_CRC_AT,
    CRC_MASK,
    EXT_ADDRESS_MAX,
    PHYSICAL_OFFSET_AT,
    QUEUE_OFFSET_AT,
    SYS_FLAG_AT,
)
from pymq.model.record import MalformedRecordError
from pymq.spark.planning.ranges import DataLossError, QueueRange, ReadSettings
from pymq.spark.reading.reader import ACCEPT_LOSSES, filter_by_tags, plugin_filter
from pymq.spark.records.decode import Decoder
from pymq.spark.records.layout import Chunk, Layout, Positions, find_fields, find_starts, integers
from pymq.spark.records.read_buffer import ReadBuffer
from pymq.spark.records.schema import arrow_schema, check_columns
from pymq.units import format_count

if TYPE_CHECKING:
    from pymq.offline.consumer_view import ConsumerView
    from pymq.offline.walked_queues import QueueRecords

# Records that lie closer together than this are read at once, with what is between them: copying that costs as much as
# another read.
GAP_MAX_BYTES = 8 * 1024
# Of records that lie closer together than this, the device reads what is between them too.
DEVICE_GAP_MAX_BYTES = 64 * 1024
READ_SIZE_MAX_BYTES = 4 << 20
# Units that are looked at together.
UNITS_AT_ONCE = 64 * 1024
log = logging.getLogger(__name__)

_BODY_COLUMNS = frozenset(("body", "bodyText", "bodyJson", "value", "badRecord"))
_LOGICAL_QUEUE_PREFIX = "%LMQ%"


class StoreReader:
    """Reads one range once, as :class:`~pymq.spark.reading.reader.RangeReader` does from a broker.

    ``lost`` counts the offsets of the range without a sound record. Bodies are compared with their CRC if they are
    asked for.
    """

    def __init__(self, part: QueueRange, settings: ReadSettings) -> None:
        """Raise UsageError when filter servers are to filter."""
        assert settings.store is not None
        if settings.selection.via is not None:
            raise UsageError("a store directory has no filter servers: leave out via, and the tasks run the filter")
        self.rows = 0
        self.lost = 0
        self.bytes_read = 0
        self._place = settings.store
        self._part = part
        self._settings = settings
        selection = settings.selection
        self._tags = selection.tags
        self._codes = None if self._tags is None else np.array([tags_code(tag) for tag in self._tags], np.int64)
        text = selection.sql or selection.pushed_sql
        self._sql = None if text is None else compile_sql(text)
        self._plugin = plugin_filter(settings, part) if selection.runs_here else None
        self._buffer = ReadBuffer()
        self._schema = arrow_schema(check_columns(settings.columns))
        columns = self._schema.names
        if self._tags is not None and "tags" not in columns:
            columns = [*columns, "tags"]
        self._checks_bodies = not _BODY_COLUMNS.isdisjoint(columns)
        self._checks_offsets = not part.topic.startswith(_LOGICAL_QUEUE_PREFIX)
        self._decoder = Decoder(
            part.broker_name,
            columns,
            inflation_ratio_max=settings.inflation_ratio_max,
            body_errors=settings.body_errors,
            body_form=settings.body_form,
            registry=settings.registry,
            body_schema=settings.body_schema,
        )

    @property
    def filter_errors(self) -> int:
        """The number of messages on which this reader's filter failed."""
        return 0 if self._plugin is None else self._plugin.error_count

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in order of their offsets.

        Raises DataLossError for a damaged or missing record (unless losses are only reported), StoreError when a broker
        runs there, FilterStopError when a filter stops, OSError.
        """
        with self._place.opened() as view:
            first, end = self._part.from_offset, self._part.to_offset
            for offset in range(first, end, UNITS_AT_ONCE):
                last = min(offset + UNITS_AT_ONCE, end)
                records = view.records(self._part.topic, self._part.queue_id, offset, last)
                self._count_missing(view, records, offset, last)
                for wanted in self._chunks(self._with_tags(records)):
                    yield from self._read(view, wanted)

    def _count_missing(self, view: ConsumerView, records: QueueRecords, first: int, last: int) -> None:
        begins, ends = np.maximum(records.offsets, first), np.minimum(records.offsets + records.counts, last)
        missing = last - first - int((ends - begins).sum())
        if missing:
            self._lose(
                missing,
                f"{self._part}: {format_count(missing, 'message')} of [{first}, {last}) are not in "
                f"{view.log.directory}",
            )

    def _lose(self, count: int, text: str) -> None:
        self.lost += count
        if self._settings.on_data_loss == "fail":
            raise DataLossError(f"{text}; {ACCEPT_LOSSES}")
        log.warning("%s", text)

    def _with_tags(self, records: QueueRecords) -> QueueRecords:
        """Leave out records whose tags' code differs; the decoded tags decide about the others."""
        codes = records.tags_codes
        if self._codes is None or codes is None:
            return records
        return records.part(np.isin(codes, self._codes) | (codes <= EXT_ADDRESS_MAX))

    def _chunks(self, records: QueueRecords) -> Iterator[QueueRecords]:
        """Yield the records in groups of a batch's size."""
        rows = self._settings.batch_rows
        sizes = np.cumsum(records.sizes)
        first = 0
        while first < len(records):
            before = int(sizes[first - 1]) if first else 0
            fitting = int(np.searchsorted(sizes, before + self._settings.batch_size_bytes, "right"))
            last = max(first + 1, min(first + rows, fitting))
            yield records.part(slice(first, last))
            first = last

    def _read(self, view: ConsumerView, records: QueueRecords) -> Iterator[pa.RecordBatch]:
        chunk, starts = fetched(view, records, self._buffer)
        self.bytes_read += int(records.sizes.sum())
        good, layout = self._checked(chunk, starts, records)
        if layout is None:
            self._lose_bad(view, records, good)
            starts = starts[good]
        if not len(starts):
            return
        flags = integers(np.frombuffer(chunk, np.uint8), starts + SYS_FLAG_AT, 4)
        if (flags & sysflag.INNER_BATCH).any():
            chunk, starts = self._unwrapped(chunk, starts, records.part(good))
            layout = None
        yield from self._decoded(chunk, starts, layout)

    def _unwrapped(self, chunk: Chunk, starts: Positions, records: QueueRecords) -> tuple[Chunk, Positions]:
        ends = (starts + records.sizes).tolist()
        plain = b"".join(bytes(chunk[start:end]) for start, end in zip(starts.tolist(), ends, strict=True))
        chunk = with_single_records(plain, self._part.from_offset)
        starts = find_starts(chunk)
        offsets = integers(np.frombuffer(chunk, np.uint8), starts + QUEUE_OFFSET_AT, 8)
        return chunk, starts[(offsets >= self._part.from_offset) & (offsets < self._part.to_offset)]

    def _checked(
        self, chunk: Chunk, starts: Positions, records: QueueRecords
    ) -> tuple[npt.NDArray[np.bool_], Layout | None]:
        """Return for each record whether it is the wanted one and sound, and the fields of all if all are."""
        octets = np.frombuffer(chunk, np.uint8)
        good = integers(octets, starts, 4) == records.sizes
        good &= integers(octets, starts + PHYSICAL_OFFSET_AT, 8) == records.places
        if self._checks_offsets:
            good &= integers(octets, starts + QUEUE_OFFSET_AT, 8) == records.offsets
        if good.all():
            with suppress(MalformedRecordError):
                layout = find_fields(chunk, starts)
                good = self._bodies_fit(chunk, layout)
                if good.all():
                    return good, layout
        for row in np.flatnonzero(good).tolist():
            try:
                good[row] = self._bodies_fit(chunk, find_fields(chunk, starts[row : row + 1]))[0]
            except MalformedRecordError:
                good[row] = False
        return good, None

    def _bodies_fit(self, chunk: Chunk, layout: Layout) -> npt.NDArray[np.bool_]:
        """Return for each body whether it has the CRC that its record states; true if bodies are not asked for."""
        if not self._checks_bodies:
            return np.ones(len(layout), np.bool_)
        found = [
            crc32(chunk[begin:end]) for begin, end in zip(layout.body.tolist(), layout.body_end.tolist(), strict=True)
        ]
        stated = integers(layout.octets, layout.starts + BODY_CRC_AT, 4)
        result: npt.NDArray[np.bool_] = (np.array(found, np.int64) & CRC_MASK) == stated
        return result

    def _lose_bad(self, view: ConsumerView, records: QueueRecords, good: npt.NDArray[np.bool_]) -> None:
        from pymq.offline.log_walk import explain

        bad = records.part(~good)
        place, offset = int(bad.places[0]), int(bad.offsets[0])
        segment = view.log.find(place)
        path, position = view.log.place(place)
        distance, reason = (0, "the file is missing") if segment is None else explain(segment, place - segment.start)
        self._lose(
            int(bad.counts.sum()),
            f"{path} at {(position or 0) + distance}: {reason}; this is offset {offset} of {self._part.topic} "
            f"{self._part.broker_name}/{self._part.queue_id}",
        )

    def _decoded(self, chunk: Chunk, starts: Positions, layout: Layout | None) -> Iterator[pa.RecordBatch]:
        if self._sql is not None:
            starts, layout = starts[self._matching(chunk, starts)], None
        if self._plugin is not None:
            starts, layout = self._plugin.keep(chunk, starts), None
        for batch in self._decoder.decode(chunk, starts, layout):
            kept = filter_by_tags(batch, self._tags, self._schema.names)
            if kept.num_rows:
                self.rows += kept.num_rows
                yield kept

    def _matching(self, chunk: Chunk, starts: Positions) -> npt.NDArray[np.bool_]:
        assert self._sql is not None
        layout = find_fields(chunk, starts)
        test = self._sql.test
        found = layout.slices(layout.properties, layout.end).to_pylist()
        return np.array([test(SEPARATOR + each) is True for each in found], np.bool_)


def fetched(view: ConsumerView, records: QueueRecords, buffer: ReadBuffer) -> tuple[Chunk, Positions]:
    """Read the records; return their bytes, valid until the next call, and where each one begins in them.

    What a segment lacks reads as zeros, which no record is.
    """
    places, ends = records.places, records.places + records.sizes
    gaps = places[1:] - ends[:-1]
    moves = (gaps < 0) | (np.diff(places // view.log.segment_size) != 0)
    _announce(view, places, ends, moves | (gaps > DEVICE_GAP_MAX_BYTES))
    breaks = moves | (gaps > GAP_MAX_BYTES) | (np.diff(places // READ_SIZE_MAX_BYTES) != 0)
    firsts, lasts = _runs(breaks)
    begins = places[firsts]
    sizes = ends[lasts] - begins
    rooms = np.cumsum(sizes) - sizes
    size_bytes = int(sizes.sum())
    buffer.reset(size_bytes)
    chunk = buffer.room(size_bytes)
    for begin, size, at in zip(begins.tolist(), sizes.tolist(), rooms.tolist(), strict=True):
        room = chunk[at : at + size]
        segment = view.log.find(begin)
        if segment is None:
            room[:] = bytes(size)
        else:
            segment.read_into(begin - segment.start, room)
    return chunk, places - np.repeat(begins - rooms, lasts - firsts + 1)


def _announce(view: ConsumerView, places: Positions, ends: Positions, breaks: npt.NDArray[np.bool_]) -> None:
    """Say which parts of the log are read now, as few large ones."""
    firsts, lasts = _runs(breaks)
    for begin, end in zip(places[firsts].tolist(), ends[lasts].tolist(), strict=True):
        segment = view.log.find(begin)
        if segment is not None:
            segment.will_read(begin - segment.start, end - begin)


def _runs(breaks: npt.NDArray[np.bool_]) -> tuple[Positions, Positions]:
    """Return the first and the last index of each run of elements without a break between them."""
    behind = np.flatnonzero(breaks) + 1
    return np.concatenate(([0], behind)), np.concatenate((behind, [len(breaks) + 1])) - 1
