"""The upkeep of an Iceberg table's files: pyiceberg has neither a merge of small ones nor a removal of unused ones."""

from __future__ import annotations

import time
from collections import defaultdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import pyarrow.parquet as pq
from pyiceberg.exceptions import CommitFailedException, ValidationException
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, EqualTo, GreaterThanOrEqual, LessThan
from pyiceberg.io.pyarrow import PyArrowFile

if TYPE_CHECKING:
    from pyiceberg.table import FileScanTask, Table

# A merge holds a partition's rows in memory: by their size in files, and by what they inflate to.
MERGED_BYTES_MAX: Final = 64 << 20
PLAIN_BYTES_MAX: Final = 512 << 20
SMALL_BYTES: Final = 16 << 20
FILES_MIN: Final = 10
UNUSED_S: Final = 7 * 86400.0
_UNITS_S: Final = {"dt": 86400, "hour": 3600}


def merge_small_files(table: Table) -> None:
    """Overwrite each partition that has many small files and no others by its rows in few files.

    A partition with large files has only its small ones merged by engines that can (Spark's ``rewrite_data_files``).
    """
    groups: defaultdict[tuple[Any, ...], list[FileScanTask]] = defaultdict(list)
    for task in table.scan().plan_files():
        record = task.file.partition
        groups[tuple(record[at] for at in range(len(record)))].append(task)
    for values, tasks in groups.items():
        size_bytes = sum(task.file.file_size_in_bytes for task in tasks)
        if len(tasks) < FILES_MIN or size_bytes > MERGED_BYTES_MAX or None in values:
            continue
        if sum(_plain_bytes(table, task) for task in tasks) > PLAIN_BYTES_MAX:
            continue
        rows = table.scan(row_filter=_partition(table, values)).to_arrow()
        in_order = [
            (name, "ascending") for name in ("brokerName", "queueId", "queueOffset") if name in rows.schema.names
        ]
        try:
            table.overwrite(rows.sort_by(in_order) if in_order else rows, overwrite_filter=_partition(table, values))
        except (CommitFailedException, ValidationException):  # another program changes the same files
            table.refresh()


def _plain_bytes(table: Table, task: FileScanTask) -> int:
    with table.io.new_input(task.file.file_path).open() as stream:
        found = pq.read_metadata(stream)
    return sum(found.row_group(number).total_byte_size for number in range(found.num_row_groups))


def _partition(table: Table, values: tuple[Any, ...]) -> BooleanExpression:
    found: BooleanExpression = AlwaysTrue()
    for field, value in zip(table.spec().fields, values, strict=True):
        column = table.schema().find_column_name(field.source_id)
        assert column is not None
        unit_s = _UNITS_S.get(field.name)
        if unit_s is None:
            found = And(found, EqualTo(column, value))  # type: ignore[call-arg, arg-type]  # pydantic's signature
            continue
        first, last = (datetime.fromtimestamp(at * unit_s, UTC).isoformat() for at in (value, value + 1))
        begins = GreaterThanOrEqual(column, first)  # type: ignore[call-arg, arg-type]
        ends = LessThan(column, last)  # type: ignore[call-arg, arg-type]
        found = And(found, And(begins, ends))
    return found


def remove_old_files(table: Table) -> None:
    """Remove data and manifests that no snapshot names and that are older than :data:`UNUSED_S`."""
    import pyarrow.fs as pafs

    used: set[str] = set()
    for snapshot in table.snapshots():
        used.add(_path(snapshot.manifest_list))
        for manifest in snapshot.manifests(table.io):
            if (path := _path(manifest.manifest_path)) in used:
                continue
            used.add(path)
            used.update(_path(entry.data_file.file_path) for entry in manifest.fetch_manifest_entry(table.io))
    for folder, ending in (("data", ".parquet"), ("metadata", ".avro")):
        root = table.io.new_input(f"{table.location().rstrip('/')}/{folder}")
        assert isinstance(root, PyArrowFile)
        selector = pafs.FileSelector(root._path, recursive=True, allow_not_found=True)
        for info in root._filesystem.get_file_info(selector):
            is_old = info.mtime is not None and time.time() - info.mtime.timestamp() > UNUSED_S
            if info.is_file and is_old and info.path.endswith(ending) and _path(info.path) not in used:
                root._filesystem.delete_file(info.path)


def _path(location: str) -> str:
    """Return a location without its scheme, as file systems of pyarrow name it."""
    _, _, path = location.rpartition("://")
    return path.lstrip("/")
