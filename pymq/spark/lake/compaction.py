"""Compacts the small Parquet files of an export, so that each reader sees each row once at any moment. Needs no Spark.

A directory of the output gets a replacement with the same rows in fewer files, in ``_pymq/staging``. A commit names
both, and then one step of the file system exchanges them. Readers find the old files or the new ones: a directory holds
all rows that it had before, and no row is in two directories. The old files stay in ``_pymq/replaced`` for a grace, in
which a reader that has begun to list them comes to an end. :class:`~pymq.spark.lake.commits.ExportDirectory` completes
an exchange after a crash.
"""

from __future__ import annotations

import hashlib
import math
import os
import secrets
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from pymq.errors import PymqError, UsageError
from pymq.spark.lake.commits import ExportDirectory
from pymq.spark.lake.parquet_parts import ROW_GROUP_BYTES, ROW_GROUP_ROWS, naming_full_disk, parquet_writer
from pymq.spark.places.exchange import check_exchange
from pymq.spark.places.places import sync_directory

TARGET_BYTES = 128 << 20
# A following export merges so many files of about one size at once: each row is written again few times.
FILES_OF_A_TIER = 10
TIER_FACTOR = 10


@dataclass(slots=True, frozen=True)
class CompactSettings:
    """What is merged: files of less than half of ``target_bytes``, into files of about that size.

    With ``by_size`` only files of about one size, when there are :data:`FILES_OF_A_TIER` of them.
    """

    target_bytes: int = TARGET_BYTES
    compression: str = "zstd"
    by_size: bool = False


@dataclass(slots=True)
class CompactSummary:
    """What a compaction did, or would do."""

    directories: int = 0
    files_before: int = 0
    files_after: int = 0
    rows: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    skipped: list[str] = field(default_factory=list)
    """Directories that were left as they are, with the reason."""

    def to_dict(self) -> dict[str, Any]:
        """Return a dict for JSON."""
        return asdict(self)


class _Small(NamedTuple):
    name: str
    bytes: int


class CompactionError(PymqError):
    """Files can't be merged."""


def directories_of(output: Path) -> list[Path]:
    """Return the directories of an export that hold Parquet files, sorted. Raises UsageError if it is one itself."""
    if any(output.glob("*.parquet")):
        raise UsageError(
            f"{output} holds its files itself, not in directories: compaction exchanges directories, so export with "
            "--partition-by topic or more"
        )
    parents = {path.parent for path in output.rglob("*.parquet")}
    hidden = {path for path in parents if any(part[0] in "_." for part in path.relative_to(output).parts)}
    return sorted(parents - hidden)


def compact(log: ExportDirectory, directories: Iterable[Path], settings: CompactSettings) -> CompactSummary:
    """Merge small files of these directories, a commit for each. Raises UsageError where that is not possible."""
    summary = CompactSummary()
    is_checked = False
    for directory in directories:
        groups = plan(directory, settings)
        if not groups:
            continue
        if not is_checked:
            check_exchange(log.folder)
            is_checked = True
        try:
            with naming_full_disk(log.output):
                _compact_directory(log, directory, groups, settings, summary)
        except CompactionError as error:
            summary.skipped.append(str(error))
    return summary


def planned(directories: Iterable[Path], settings: CompactSettings) -> CompactSummary:
    """Return what :func:`compact` would do; the bytes afterwards are an estimate."""
    summary = CompactSummary()
    for directory in directories:
        groups = plan(directory, settings)
        small = [file for group in groups for file in group]
        summary.directories += bool(groups)
        summary.files_before += len(small)
        summary.files_after += len(groups)
        summary.rows += sum(pq.read_metadata(directory / file.name).num_rows for file in small)
        summary.bytes_before += sum(file.bytes for file in small)
    summary.bytes_after = summary.bytes_before
    return summary


def plan(directory: Path, settings: CompactSettings) -> list[list[_Small]]:
    """Return the files to merge, a group for each new file, in the order of names: queues, then offsets."""
    try:
        entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
    except FileNotFoundError:
        return []
    found = [_Small(entry.name, entry.stat().st_size) for entry in entries if entry.name.endswith(".parquet")]
    small = [file for file in found if file.bytes < settings.target_bytes // 2]
    tiers: dict[int, list[_Small]] = {}
    for file in small:
        tiers.setdefault(int(math.log(max(file.bytes, 1), TIER_FACTOR)) if settings.by_size else 0, []).append(file)
    count_min = FILES_OF_A_TIER if settings.by_size else 2
    return [
        group
        for files in tiers.values()
        if len(files) >= count_min
        for group in _filled(files, settings.target_bytes)
        if len(group) > 1
    ]


def _filled(files: Sequence[_Small], target_bytes: int) -> list[list[_Small]]:
    """Return files in groups of at least a target size, except the last one."""
    groups: list[list[_Small]] = []
    room = 0
    for file in files:
        if room <= 0:
            groups.append([])
            room = target_bytes
        groups[-1].append(file)
        room -= file.bytes
    return groups


def _compact_directory(
    log: ExportDirectory,
    directory: Path,
    groups: list[list[_Small]],
    settings: CompactSettings,
    summary: CompactSummary,
) -> None:
    """Build the replacement of one directory and commit it. Raises CompactionError if it isn't one to replace."""
    names = _plain_files(directory)
    staged = log.new_staging(secrets.token_hex(8))
    assert isinstance(staged, Path)  # check_exchange()
    shutil.copymode(directory, staged)
    removed = [file.name for group in groups for file in group]
    try:
        added = [
            _merge(directory, [file.name for file in group], staged / _new_name(log.next_number, place), settings)
            for place, group in enumerate(groups)
        ]
        for name in names - set(removed):
            os.link(directory / name, staged / name)
        sync_directory(staged)
        if _plain_files(directory) != names:
            raise CompactionError(f"{directory}: its files changed meanwhile; left as it is, try again")
    except BaseException:
        shutil.rmtree(staged, ignore_errors=True)
        raise
    log.commit_replacement(directory, staged, removed, added)
    summary.directories += 1
    summary.files_before += len(removed)
    summary.files_after += len(added)
    summary.rows += sum(file["rows"] for file in added)
    summary.bytes_before += sum(file.bytes for group in groups for file in group)
    summary.bytes_after += sum(file["bytes"] for file in added)


def _new_name(commit: int, place: int) -> str:
    """Return the name of a merged file: a commit's number is used once."""
    return f"compacted-{commit:08d}-{place}.parquet"


def _plain_files(directory: Path) -> set[str]:
    entries = list(os.scandir(directory))
    other = [entry.name for entry in entries if not entry.is_file(follow_symlinks=False)]
    if other:
        raise CompactionError(f"{directory}: {other[0]} in it is not a file; left as it is")
    return {entry.name for entry in entries}


def _merge(directory: Path, names: Sequence[str], target: Path, settings: CompactSettings) -> dict[str, Any]:
    """Write the rows of files to one durable file, a row group in memory at a time; describe it for the commit."""
    schema: pa.Schema = pq.read_schema(directory / names[0])
    rows = 0
    with parquet_writer(target, schema, settings.compression) as writer:
        groups = _RowGroups(writer)
        for name in names:
            with pq.ParquetFile(directory / name) as source:
                if not source.schema_arrow.equals(schema):
                    raise CompactionError(f"{directory}: {name} has other columns than {names[0]}; left as it is")
                rows += source.metadata.num_rows
                for batch in source.iter_batches(ROW_GROUP_ROWS):
                    groups.add(batch)
        groups.flush()
    written = pq.read_metadata(target).num_rows
    if written != rows:
        raise CompactionError(f"{directory}: {written} rows of {rows} were written; left as it is")
    with target.open("rb") as stream:
        os.fsync(stream.fileno())
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return {"name": target.name, "rows": rows, "bytes": target.stat().st_size, "sha256": digest}


class _RowGroups:
    """Collects batches until they fill a row group."""

    def __init__(self, writer: pq.ParquetWriter) -> None:
        self._writer = writer
        self._pending: list[pa.RecordBatch] = []

    def add(self, batch: pa.RecordBatch) -> None:
        self._pending.append(batch)
        rows = sum(one.num_rows for one in self._pending)
        if rows >= ROW_GROUP_ROWS or sum(one.nbytes for one in self._pending) >= ROW_GROUP_BYTES:
            self.flush()

    def flush(self) -> None:
        if self._pending:
            table = pa.Table.from_batches(self._pending)
            self._writer.write_table(table, row_group_size=max(1, table.num_rows))
        self._pending = []
