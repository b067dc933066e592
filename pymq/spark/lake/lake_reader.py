"""Reads a range of a queue from a lake's files as RecordBatches, with the columns that a broker's reader gives.

Files may hold several queues, and several files one part of a queue: row groups that overlap are sorted together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pymq.errors import UsageError
from pymq.filter.raw_properties import SEPARATOR
from pymq.filter.sql92 import compile_sql
from pymq.model.properties import encode_properties
from pymq.spark.lake.lake import Lake, LakeFile, Span
from pymq.spark.places.places import parquet_file, place_of
from pymq.spark.planning.ranges import DataLossError, QueueRange, ReadSettings
from pymq.spark.reading.reader import filter_by_tags
from pymq.spark.records.bodies import BodyDecoder
from pymq.spark.records.decode import KAFKA_LOG_APPEND_TIME
from pymq.spark.records.schema import arrow_schema, check_columns, property_of
from pymq.units import format_count

# An exporter moves files to their places, and a compaction exchanges them: the log is then read again.
LISTINGS_MAX = 5
_PLACE = ["brokerName", "queueId", "queueOffset"]
# What a column is made of; all others are columns of the lake or properties.
_MADE_OF = {
    "topic": (),
    "rowId": (),
    "bodyText": ("body",),
    "bodyJson": ("body",),
    "key": ("keys",),
    "value": ("body",),
    "partition": (),
    "offset": (),
    "timestamp": ("storeTimestamp",),
    "timestampType": (),
    "headers": ("properties",),
}


class _Group(NamedTuple):
    """A row group, and between which offsets it may have rows of the range."""

    file: pq.ParquetFile
    number: int
    first: int
    last: int


class LakeReader:
    """Reads one range once, as :class:`~pymq.spark.reading.reader.RangeReader` does from a broker."""

    def __init__(self, part: QueueRange, settings: ReadSettings) -> None:
        """Raise UsageError for a column that the lake lacks, and what :class:`~pymq.spark.lake.lake.Lake` raises."""
        self.rows = 0
        self.lost = 0
        self.filter_errors = 0
        self.bytes_read = 0
        self._part = part
        self._settings = settings
        self._root = place_of(settings.archive)
        selection = settings.selection
        self._tags = selection.tags
        self._sql = None if selection.sql is None else compile_sql(selection.sql)
        self._names = check_columns(settings.columns)
        self._read_names = self._needed(Lake(self._root).columns)
        self._texts = BodyDecoder("", fails=settings.body_errors == "fail", registry=settings.registry)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in order of their offsets. Raises DataLossError for missing rows, unless they are reported."""
        at, end = self._part.from_offset, self._part.to_offset
        listings = 0
        while at < end:
            try:
                for rows in self._sorted(Span(at, end), skips_missing=listings == LISTINGS_MAX):
                    yield from self._selected(rows, at)
                    at = rows.column("queueOffset")[-1].as_py() + 1
                    listings = 0
                self._lose(at, end)
                return
            except FileNotFoundError:
                listings += 1

    def _sorted(self, span: Span, *, skips_missing: bool) -> Iterator[pa.Table]:
        """Yield the rows of the range in order; rows of overlapping row groups come together."""
        files = Lake(self._root).files_of((self._part.topic, self._part.broker_name, self._part.queue_id), span)
        groups = sorted(
            (group for file in files for group in self._groups(file, span, skips_missing=skips_missing)),
            key=lambda group: group.first,
        )
        pending: list[pa.Table] = []
        last = -1
        for group in groups:
            if pending and group.first > last:
                yield from _in_order(pending)
                pending = []
            rows = self._rows(group, span)
            if rows.num_rows:
                pending.append(rows)
                last = max(last, group.last)
        yield from _in_order(pending)

    def _groups(self, file: LakeFile, span: Span, *, skips_missing: bool) -> Iterator[_Group]:
        try:
            opened = _opened(file)
        except FileNotFoundError:
            if skips_missing:  # a user removed it: its offsets are reported as lost
                return
            raise
        names = opened.schema_arrow.names
        column = names.index("queueOffset")
        for number in range(opened.metadata.num_row_groups):
            described = opened.metadata.row_group(number)
            place = next(
                described.column(at)
                for at in range(column, described.num_columns)
                if described.column(at).path_in_schema == "queueOffset"
            )
            found = place.statistics
            has_bounds = found is not None and found.has_min_max
            first, last = (found.min, found.max) if has_bounds else (span.from_offset, span.to_offset - 1)
            if first < span.to_offset and last >= span.from_offset:
                yield _Group(opened, number, first, last)

    def _rows(self, group: _Group, span: Span) -> pa.Table:
        part = self._part
        rows = group.file.read_row_group(group.number, columns=list(self._read_names), use_threads=False)
        offsets = rows.column("queueOffset")
        mask = pc.and_(
            pc.and_(
                pc.equal(rows.column("brokerName"), part.broker_name), pc.equal(rows.column("queueId"), part.queue_id)
            ),
            pc.and_(pc.greater_equal(offsets, span.from_offset), pc.less(offsets, span.to_offset)),
        )
        return rows if pc.all(mask).as_py() else rows.filter(mask)

    def _selected(self, rows: pa.Table, expected: int) -> Iterator[pa.RecordBatch]:
        """Yield the wanted rows in order; offsets that the rows skip from ``expected`` on are lost."""
        offsets = rows.column("queueOffset").to_numpy()
        steps = np.diff(offsets, prepend=expected - 1)
        for at in np.flatnonzero(steps != 1).tolist():
            before = int(offsets[at - 1]) + 1 if at else expected
            self._lose(before, int(offsets[at]))
        for batch in rows.combine_chunks().to_batches(max_chunksize=self._settings.batch_rows):
            self.bytes_read += batch.nbytes
            kept = filter_by_tags(batch, self._tags, batch.schema.names)
            if self._sql is not None:
                kept = kept.filter(self._matching(kept))
            if kept.num_rows:
                self.rows += kept.num_rows
                yield self._columns(kept)

    def _lose(self, first: int, last: int) -> None:
        if first >= last:
            return
        self.lost += last - first
        if self._settings.on_data_loss == "fail":
            part = self._part
            raise DataLossError(
                f"{part.topic} {part.broker_name}/{part.queue_id}: {format_count(last - first, 'message')} "
                f"[{first}, {last}) are not "
                f"in {self._root}: their files were removed, or they were lost before the export; read on without them "
                "with failOnDataLoss=false"
            )

    def _matching(self, rows: pa.RecordBatch) -> pa.Array:
        assert self._sql is not None
        test = self._sql.test
        found = rows.column("properties").to_pylist()
        return pa.array([test(SEPARATOR + encode_properties(dict(pairs or ()))) is True for pairs in found], pa.bool_())

    def _needed(self, known: tuple[str, ...]) -> tuple[str, ...]:
        needed = set(_PLACE)
        for name in self._names:
            made_of = ("properties",) if property_of(name) is not None else _MADE_OF.get(name, (name,))
            if missing := [column for column in made_of if column not in known]:
                raise UsageError(f"{self._root} lacks the column {missing[0]}, which {name} needs: export it too")
            needed.update(made_of)
        for column, is_needed in (("tags", self._tags is not None), ("properties", self._sql is not None)):
            if is_needed and column not in known:
                raise UsageError(f"{self._root} lacks the column {column}, which the selection needs: export it too")
            if is_needed:
                needed.add(column)
        return tuple(name for name in known if name in needed)

    def _columns(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        schema = arrow_schema(self._names)
        arrays = [self._column(rows, name).cast(schema.field(name).type) for name in self._names]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _column(self, rows: pa.RecordBatch, name: str) -> pa.Array:
        property_name = property_of(name)
        if property_name is not None:
            return pc.map_lookup(rows.column("properties"), pa.scalar(property_name), "last")
        if name in _BUILDERS:
            return _BUILDERS[name](rows)
        if name == "topic":
            return pa.repeat(pa.scalar(self._part.topic), rows.num_rows)
        if name == "rowId":
            return self._row_ids(rows)
        if name == "bodyText":
            return self._texts.text(rows.column("body").cast(pa.binary()), lambda: self._row_ids(rows))
        if name == "bodyJson":
            topics = pa.repeat(pa.scalar(self._part.topic), rows.num_rows)
            return self._texts.by_registry(topics, rows.column("body").cast(pa.binary()), lambda: self._row_ids(rows))
        return rows.column(name)

    def _row_ids(self, rows: pa.RecordBatch) -> pa.Array:
        part = self._part
        place = f"{part.topic}/{part.broker_name}/{part.queue_id}"
        return pc.binary_join_element_wise(place, rows.column("queueOffset").cast(pa.string()), "@")


def _headers(rows: pa.RecordBatch) -> pa.Array:
    pairs = rows.column("properties")
    fields = pa.StructArray.from_arrays([pairs.keys, pairs.items.cast(pa.binary())], ["key", "value"])
    return pa.ListArray.from_arrays(pairs.offsets, fields, mask=pairs.is_null() if pairs.null_count else None)


_BUILDERS: dict[str, Callable[[pa.RecordBatch], pa.Array]] = {
    "key": lambda rows: rows.column("keys"),
    "value": lambda rows: rows.column("body"),
    "partition": lambda rows: rows.column("queueId"),
    "offset": lambda rows: rows.column("queueOffset"),
    "timestamp": lambda rows: rows.column("storeTimestamp"),
    "timestampType": lambda rows: pa.repeat(pa.scalar(KAFKA_LOG_APPEND_TIME, pa.int32()), rows.num_rows),
    "headers": _headers,
}


def first_offset_at(lake: Lake, queue: tuple[str, str, int], time_ms: int) -> int | None:
    """Return the first archived offset of a queue that was stored at a time or later; None if there is none."""
    part = QueueRange(*queue, 0, 0, ())
    settings = ReadSettings(columns=("queueOffset", "storeTimestamp"), archive=str(lake.root), on_data_loss="report")
    time = pa.scalar(time_ms * 1000, pa.timestamp("us", tz="UTC"))
    for span in lake.spans(queue):
        reader = LakeReader(QueueRange(*part.key, *span, ()), settings)
        for batch in reader.batches():
            later = batch.filter(pc.greater_equal(batch.column("storeTimestamp"), time))
            if later.num_rows:
                return int(later.column("queueOffset")[0].as_py())
    return None


def _opened(file: LakeFile) -> pq.ParquetFile:
    """Raise FileNotFoundError when the file is neither at its place nor staged."""
    try:
        return parquet_file(file.path)
    except FileNotFoundError:
        return parquet_file(file.staged)


def _in_order(tables: list[pa.Table]) -> Iterator[pa.Table]:
    if tables:
        rows = tables[0] if len(tables) == 1 else pa.concat_tables(tables)
        offsets = rows.column("queueOffset").to_numpy()
        yield rows if (np.diff(offsets) > 0).all() else rows.sort_by("queueOffset")
