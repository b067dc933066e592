"""Describes a directory from a few reads of each file, without reading the whole log."""

from __future__ import annotations

from typing import Any

from pymq.model.layout import MAGIC_BLANK, RECORD_START
from pymq.offline.directory import Directory
from pymq.offline.index_reader import IndexReader
from pymq.offline.log_files import LogFiles, SegmentFile
from pymq.offline.log_walk import LogEnd, last_record, record_at, walk
from pymq.offline.queue_files import QueueFilesReader, is_blank
from pymq.offline.table_check import TABLES_MEMBER
from pymq.store.log.log_record import Scanned


def overview(directory: Directory, topic: str | None = None) -> dict[str, Any]:
    """Return segments, queues (of ``topic`` if given), index files, checkpoint, tables. Times are Unix ms."""
    queues = [_queue(directory.log, reader) for reader in directory.queues() if topic in (None, reader.topic)]
    end = log_end(directory)
    return {
        "directory": directory.root,
        "clean_stop": directory.clean,
        "last_written_by": _writer(directory),
        "log_start": directory.log.start,
        "log_end": end.offset,
        "torn_tail": end.remains_at is not None,
        "segment_size_bytes": directory.log.segment_size,
        "segments": [_segment(directory.log, segment, end.offset) for segment in directory.log.segments],
        "odd_files": [f"{path} {problem}" for path, problem in directory.log.odd],
        "queues": queues,
        "index_files": [_index_file(directory, path) for path in directory.index_paths()],
        "checkpoint": _checkpoint(directory),
        "tables": {name: _table(directory, name, member) for name, member in TABLES_MEMBER.items()},
    }


def log_end(directory: Directory) -> LogEnd:
    """Return where good records end, searched from the newest record that any queue or the checkpoint knows."""
    log = directory.log
    known = [log.segments[-1].start] if log.segments else [0]
    for reader in directory.queues():
        if reader.end > reader.base:
            physical_offset, size, code = reader.unit(reader.end - 1)
            if not is_blank(size, code) and record_at(log, physical_offset, check_crc=True) is not None:
                known.append(physical_offset)
        reader.close()
    start = max(known)
    # A preallocated segment, or several after a crash, may be empty.
    while start > log.start and record_at(log, start, check_crc=True) is None:
        start = max((s.start for s in log.segments if s.start < start), default=log.start)
    for step in walk(log, start):
        if isinstance(step, LogEnd):
            return step
    raise AssertionError("a walk ends with a LogEnd")


def _writer(directory: Directory) -> str:
    if directory.checkpoint.durable is not None:
        return "PyMQ"
    return "RocketMQ" if directory.files.exists(f"{directory.root}/checkpoint") else "unknown"


def _segment(log: LogFiles, segment: SegmentFile, end: int) -> dict[str, Any]:
    first = record_at(log, segment.start)
    last = last_record(segment, end - segment.start)
    return {
        "file": segment.path,
        "start": segment.start,
        "used_bytes": last.offset + last.size - segment.start if last is not None else 0,
        "first_store_ms": first.store_ms if first is not None else None,
        "last_store_ms": last.store_ms if last is not None else None,
        "state": _state(segment, last, end),
    }


def _state(segment: SegmentFile, last: Scanned | None, end: int) -> str:
    if segment.is_cold:
        return "compressed"
    if segment.start >= end:
        return "empty"
    if end < segment.end:
        return "open"
    at = last.offset + last.size - segment.start if last is not None else 0
    raw = segment.read(at, RECORD_START.size)
    whole = len(raw) == RECORD_START.size and RECORD_START.unpack(raw) == (segment.size - at, MAGIC_BLANK)
    return "sealed" if whole else "sealed without a blank"


def _queue(log: LogFiles, reader: QueueFilesReader) -> dict[str, Any]:
    first = reader.first_in_log(log.start)
    last_ms = None
    if reader.end > first:
        record = record_at(log, reader.unit(reader.end - 1)[0])
        last_ms = record.store_ms if record is not None else None
    reader.close()
    return {
        "topic": reader.topic,
        "queue": reader.queue_id,
        "min_offset": first,
        "max_offset": reader.end,
        "messages": reader.end - first,
        "files": reader.file_count,
        "file_size_bytes": reader.file_size_bytes,
        "last_store_ms": last_ms,
    }


def _index_file(directory: Directory, path: str) -> dict[str, Any]:
    file = directory.files.open(path)
    size = file.size()
    file.close()
    geometry = directory.index_geometry(size)
    row: dict[str, Any] = {"file": path, "size_bytes": size, "slots": None, "entry_limit": None}
    if geometry is None:
        return row
    reader = IndexReader(directory.files, path, *geometry)
    reader.close()
    return row | {
        "slots": reader.slot_count,
        "entry_limit": reader.entry_count,
        "entries": reader.count - 1,
        "used_slots": reader.used_slots,
        "first_offset": reader.begin_offset,
        "last_offset": reader.end_offset,
        "first_store_ms": reader.begin_ms,
        "last_store_ms": reader.end_ms,
    }


def _checkpoint(directory: Directory) -> dict[str, Any]:
    checkpoint = directory.checkpoint
    durable = checkpoint.durable
    return {
        "log_store_ms": checkpoint.physic_ms,
        "queues_store_ms": checkpoint.logics_ms,
        "index_store_ms": checkpoint.index_ms,
        "master_flushed_offset": checkpoint.master_flushed_offset,
        "confirm_offset": checkpoint.confirm_offset,
        "pymq": None
        if durable is None
        else {
            "log_offset": durable.log_offset,
            "queue_offset": durable.queue_offset,
            "unit_count": durable.unit_count,
            "index_offset": durable.index_offset,
            "index_name": durable.index_name,
            "index_count": durable.index_count,
        },
    }


def _table(directory: Directory, name: str, member: str) -> int | None:
    """Return the number of entries of a table; None without the table."""
    table = directory.table(name).get(member)
    return len(table) if isinstance(table, dict) else None
