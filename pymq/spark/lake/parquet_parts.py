"""Writes the rows of one range to staged Parquet files, one per run of rows of the same directory. Doesn't use Spark.

A file's final name depends only on its offsets. Files stay in the staging directory, where readers of the output don't
see them, until the commit log lists them. A staged name holds its attempt's name: Spark may run two attempts of one
task at once, and each writes files of its own.
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
from pymq.spark.places.places import NewFile, Place, relative, sync_directory
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


def columns_to_read(columns: tuple[str, ...]) -> tuple[str, ...]:
    """Return the columns to export and the columns that the writer needs."""
    exported = check_columns(columns)
    return exported + tuple(name for name in _NEEDED if name not in exported)


class PartWriter:
    """Writes the batches of one range. ``output`` is the export's directory, ``staging`` a directory in it.

    No other writer may have the name ``attempt``.
    """

    def __init__(
        self,
        part: QueueRange,
        *,
        output: Place,
        staging: Place,
        attempt: str,
        columns: tuple[str, ...],
        partition_by: tuple[str, ...],
        compression: str,
    ) -> None:
        self.files: list[StagedFile] = []
        self._part = part
        self._topic = safe_name(generation_name(part.topic, part.generation))
        self._output = output
        self._staging = staging
        self._attempt = attempt
        # A column that is a directory level must not be in the files too: readers would see it twice.
        self._columns = [name for name in check_columns(columns) if name not in partition_by]
        self._partition_by = partition_by
        self._compression = compression
        self._open: _OpenFile | None = None

    def write(self, batches: Iterable[pa.RecordBatch]) -> Iterator[int]:
        """Write all batches and yield the number of rows of each. Close or abandon the writer afterwards."""
        for batch in batches:
            for hour, run in self._runs(batch):
                if self._open is None or self._open.hour != hour or self._open.file.is_full:
                    self._finish()
                    self._open = self._start(hour, run)
                self._open.add(run)
            yield batch.num_rows

    def close(self) -> list[StagedFile]:
        """Finish the last file, make the staging directory durable, and return all files."""
        self._finish()
        if self.files:
            sync_directory(self._staging)
        return self.files

    def abandon(self) -> None:
        """Close an unfinished file after an error."""
        if self._open is not None:
            self._open.writer.close()
            self._open.file.abandon()
            self._open = None

    def _runs(self, batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the batch in runs of rows that go to the same directory, each with the hour that this begins at.

        Hours count from 1970; -1 stands for a time before that or none, and for directories without a time.
        """
        unit_hours = 1 if "hour" in self._partition_by else HOURS_PER_DAY if "dt" in self._partition_by else 0
        if not unit_hours:
            yield -1, batch
            return
        times_us = pc.fill_null(batch.column("storeTimestamp").cast(pa.int64()), -1).to_numpy(zero_copy_only=False)
        hours = np.maximum(times_us // _HOUR_US // unit_hours * unit_hours, -1)
        bounds = [0, *(np.flatnonzero(np.diff(hours)) + 1).tolist(), batch.num_rows]
        for first, last in pairwise(bounds):
            yield int(hours[first]), batch.slice(first, last - first)

    def _start(self, hour: int, run: pa.RecordBatch) -> _OpenFile:
        first = run.column("queueOffset")[0].as_py()
        name = f"{safe_name(self._part.broker_name)}-{self._part.queue_id}-{first:012d}"
        if "topic" not in self._partition_by:
            name = f"{self._topic}-{name}"
        file = NewFile(self._staging / f"{self._attempt}-{len(self.files)}.tmp")
        schema = run.select(self._columns).schema
        return _OpenFile(file, hour, name, parquet_writer(file.target, schema, self._compression))

    def _finish(self) -> None:
        if self._open is None:
            return
        done, self._open = self._open, None
        done.close()
        folders = {"topic": f"topic={self._topic}", **_time_folders(done.hour)}
        path = PurePosixPath(
            *[folders[name] for name in self._partition_by], f"{done.name}-{done.to_offset:012d}.parquet"
        )
        size_bytes, digest = done.file.finish()
        self.files.append(
            StagedFile(
                path=str(path),
                staged=relative(done.file.place, self._output),
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

    def __init__(self, file: NewFile, hour: int, name: str, writer: pq.ParquetWriter) -> None:
        self.file = file
        self.hour = hour
        self.name = name
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
    """Return the directories of an hour counted from 1970, by level; -1 has none."""
    if hour < 0:
        return {"dt": f"dt={NO_TIME}", "hour": f"hour={NO_TIME}"}
    day = _EPOCH + timedelta(hour // HOURS_PER_DAY)
    return {"dt": f"dt={day}", "hour": f"hour={hour % HOURS_PER_DAY:02d}"}


def safe_name(name: str) -> str:
    """Escape a name for a path: letters, digits, ``-`` and ``_`` stay, except a first ``_``, which hides a file."""
    text = quote(name, safe="").replace(".", "%2E").replace("~", "%7E")
    return "%5F" + text[1:] if text.startswith("_") else text
