"""Writes the rows of one range to Parquet files, one per run of rows of the same directory. Doesn't use Spark.

In a plain directory a file's final name depends only on its offsets. Files stay in the staging directory, where readers
of the output don't see them, until the commit log lists them. The files of a table are written to their places, which
nobody reads before the table's log names them. A staged name and that of a table's file hold their attempt's name:
Spark may run two attempts of one task at once, and each writes files of its own.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import date, timedelta
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pymq.errors import PymqError
from pymq.spark.lake.compression import ZSTD_LEVEL, parse_compression
from pymq.spark.places.places import NewFile, Place, make_directory, place_of, relative, sync_below
from pymq.spark.planning.identity import generation_name
from pymq.spark.planning.ranges import QueueRange
from pymq.spark.records.schema import check_columns

ROW_GROUP_ROWS = 128 * 1024
ROW_GROUP_BYTES = 32 * 1024 * 1024
NO_TIME = "__HIVE_DEFAULT_PARTITION__"
# Columns whose values repeat: a dictionary makes them smaller. For other columns it only costs time.
DICTIONARY_COLUMNS = [
    "topic",
    "brokerName",
    "queueId",
    "tags",
    "reconsumeTimes",
    "bornHost",
    "sysFlag",
    "flag",
    # Not the values: unique keys are among them, so a dictionary of them grows until it is given up.
    "properties.key_value.key",
]

_HOUR_US = 3_600_000_000
_NO_TIME_US = -(1 << 63)
HOURS_PER_DAY = 24
_EPOCH = date(1970, 1, 1)
# Columns that the writer needs for the files and their description, even if they are not exported.
_NEEDED = ("queueOffset", "storeTimestamp")


class OutputFullError(PymqError):
    """The file system of the output has no room."""


@contextmanager
def naming_full_disk(output: Place) -> Iterator[None]:
    """Raise OutputFullError, which names the output and the next step, for an error of a full disk."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise OutputFullError(
            f"{output} has no room ({os.strerror(error.errno)}): free some, and run the same command again; what is "
            "committed stays"
        ) from error


@dataclass(slots=True, frozen=True)
class StagedFile:
    """A finished file. ``path`` is its final place, ``staged`` its current one; both are relative to the output."""

    path: str
    staged: str
    rows: int
    bytes: int
    sha256: str
    from_offset: int
    to_offset: int
    min_time_us: int | None
    max_time_us: int | None

    def to_dict(self) -> dict[str, Any]:
        """Return a dict for JSON."""
        return asdict(self)


@dataclass(slots=True, frozen=True)
class Layout:
    """How the files of an export lie: below ``root``, with these columns, in these levels of directories."""

    root: str
    columns: tuple[str, ...]
    partition_by: tuple[str, ...]
    in_place: bool = False
    """Whether files are written to their places: a table's."""
    keeps_levels: bool = False
    """Whether files have the columns that are levels, too."""

    @property
    def written_columns(self) -> tuple[str, ...]:
        """The columns of a file. One that is a level only would be seen twice by readers."""
        left_out = () if self.keeps_levels else self.partition_by
        return tuple(name for name in check_columns(self.columns) if name not in left_out)


def columns_to_read(columns: tuple[str, ...]) -> tuple[str, ...]:
    """Return the columns to export and the columns that the writer needs."""
    exported = check_columns(columns)
    return exported + tuple(name for name in _NEEDED if name not in exported)


class PartWriter:
    """Writes the batches of one range. ``staging`` is a directory below the layout's root.

    No other writer may have the name ``attempt``.
    """

    def __init__(self, part: QueueRange, layout: Layout, *, staging: Place, attempt: str, compression: str) -> None:
        self.files: list[StagedFile] = []
        self._part = part
        self._generation = generation_name(part.topic, part.generation)
        self._topic = safe_name(self._generation)
        self._layout = layout
        self._root = place_of(layout.root)
        self._staging = staging
        self._attempt = attempt
        self._columns = list(layout.written_columns)
        self._compression = compression
        self._open: _OpenFile | None = None

    def write(self, batches: Iterable[pa.RecordBatch]) -> Iterator[int]:
        """Write all batches and yield the number of rows of each. Close or abandon the writer afterwards."""
        for batch in batches:
            for hour, run in self._runs(self._named(batch)):
                if self._open is None or self._open.hour != hour:
                    self._finish()
                    self._open = self._start(hour, run)
                self._open.add(run)
            yield batch.num_rows

    def close(self) -> list[StagedFile]:
        """Finish the last file, make the directories of all durable, and return them."""
        self._finish()
        sync_below(self._root, [file.staged for file in self.files])
        return self.files

    def abandon(self) -> None:
        """Close an unfinished file after an error."""
        if self._open is not None:
            self._open.writer.close()
            self._open.file.abandon()
            self._open = None

    def _named(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch with the topic by the name of its generation, where files have the level ``topic``."""
        if not self._layout.keeps_levels or self._generation == self._part.topic:
            return batch
        names = pa.repeat(pa.scalar(self._generation), batch.num_rows)
        return batch.set_column(batch.schema.names.index("topic"), "topic", names)

    def _runs(self, batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the batch in runs of rows that go to the same directory, each with the hour that this begins at.

        Hours count from 1970; one below 0 stands for an earlier time or none, and for directories without a time.
        """
        levels = self._layout.partition_by
        unit_hours = 1 if "hour" in levels else HOURS_PER_DAY if "dt" in levels else 0
        if not unit_hours:
            yield -1, batch
            return
        times = pc.fill_null(batch.column("storeTimestamp").cast(pa.int64()), _NO_TIME_US)
        hours = times.to_numpy(zero_copy_only=False) // _HOUR_US // unit_hours * unit_hours
        bounds = [0, *(np.flatnonzero(np.diff(hours)) + 1).tolist(), batch.num_rows]
        for first, last in pairwise(bounds):
            yield int(hours[first]), batch.slice(first, last - first)

    def _start(self, hour: int, run: pa.RecordBatch) -> _OpenFile:
        first = run.column("queueOffset")[0].as_py()
        name = f"{safe_name(self._part.broker_name)}-{self._part.queue_id}-{first:012d}"
        levels = self._layout.partition_by
        if "topic" not in levels:
            name = f"{self._topic}-{name}"
        own_name = f"{self._attempt}-{len(self.files)}"
        folders = {"topic": f"topic={self._topic}", **_time_folders(hour)}
        path = str(PurePosixPath(*[folders[level] for level in levels], name))
        if self._layout.in_place:
            place = self._root / f"{path}-{own_name}.parquet"
            make_directory(place.parent)
        else:
            place = self._staging / f"{own_name}.tmp"
        file = NewFile(place)
        schema = run.select(self._columns).schema
        return _OpenFile(file, hour, path, parquet_writer(file.target, schema, self._compression))

    def _finish(self) -> None:
        if self._open is None:
            return
        done, self._open = self._open, None
        done.close()
        staged = relative(done.file.place, self._root)
        size_bytes, digest = done.file.finish()
        self.files.append(
            StagedFile(
                path=staged if self._layout.in_place else f"{done.path}-{done.to_offset:012d}.parquet",
                staged=staged,
                rows=done.rows,
                bytes=size_bytes,
                sha256=digest,
                from_offset=done.from_offset,
                to_offset=done.to_offset,
                min_time_us=done.min_time_us,
                max_time_us=done.max_time_us,
            )
        )


class _OpenFile:
    """A Parquet file being written: collects rows until they fill a row group."""

    def __init__(self, file: NewFile, hour: int, path: str, writer: pq.ParquetWriter) -> None:
        self.file = file
        self.hour = hour
        self.path = path
        self.writer = writer
        self.rows = 0
        self.from_offset = -1
        self.to_offset = -1
        self.min_time_us: int | None = None
        self.max_time_us: int | None = None
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = 0
        self._pending_bytes = 0

    def add(self, run: pa.RecordBatch) -> None:
        offsets = run.column("queueOffset")
        if self.from_offset < 0:
            self.from_offset = offsets[0].as_py()
        self.to_offset = offsets[-1].as_py() + 1
        self._widen_times(run)
        self.rows += run.num_rows
        self._pending.append(run.select(self.writer.schema.names))
        self._pending_rows += run.num_rows
        self._pending_bytes += run.nbytes
        if self._pending_rows >= ROW_GROUP_ROWS or self._pending_bytes >= ROW_GROUP_BYTES:
            self._flush()

    def close(self) -> None:
        self._flush()
        self.writer.close()

    def _flush(self) -> None:
        if self._pending:
            table = pa.Table.from_batches(self._pending)
            self.writer.write_table(table, row_group_size=self._pending_rows)
        self._pending, self._pending_rows, self._pending_bytes = [], 0, 0

    def _widen_times(self, run: pa.RecordBatch) -> None:
        span = pc.min_max(run.column("storeTimestamp").cast(pa.int64())).as_py()
        if span["min"] is not None:
            self.min_time_us = span["min"] if self.min_time_us is None else min(self.min_time_us, span["min"])
            self.max_time_us = span["max"] if self.max_time_us is None else max(self.max_time_us, span["max"])


def parquet_writer(target: Any, schema: pa.Schema, compression: str) -> pq.ParquetWriter:
    """Return a writer of Parquet, to a path or a stream, with the settings of exports.

    ``compression``: a codec, maybe with a level.
    """
    codec, level = parse_compression(compression)
    return pq.ParquetWriter(
        target,
        schema,
        compression=codec,
        compression_level=ZSTD_LEVEL if codec == "zstd" and level is None else level,
        use_dictionary=DICTIONARY_COLUMNS,
        # Minimum and maximum of bodies don't help readers to skip row groups.
        write_statistics=[name for name in schema.names if name not in ("body", "bodyText", "properties")],
    )


def _time_folders(hour: int) -> dict[str, str]:
    """Return the directories of an hour counted from 1970, by level; one below 0 has none."""
    if hour < 0:
        return {"dt": f"dt={NO_TIME}", "hour": f"hour={NO_TIME}"}
    day = _EPOCH + timedelta(hour // HOURS_PER_DAY)
    return {"dt": f"dt={day}", "hour": f"hour={hour % HOURS_PER_DAY:02d}"}


def safe_name(name: str) -> str:
    """Escape a name for a path: letters, digits, ``-`` and ``_`` stay, except a first ``_``, which hides a file."""
    text = quote(name, safe="").replace(".", "%2E").replace("~", "%7E")
    return "%5F" + text[1:] if text.startswith("_") else text
