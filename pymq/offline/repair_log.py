"""Copies a log to a new directory and makes its damaged ranges harmless. Every good record keeps its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from pymq.offline.blank_records import BLANK_RECORD_BYTES_MIN, fill
from pymq.offline.log_files import LogFiles
from pymq.offline.log_walk import last_record, record_at
from pymq.store.disk.fs import File, Files

_CHUNK_BYTES = 4 << 20


class LostRange(NamedTuple):
    """Bytes of the log that a repair gives up: physical offsets and the reason."""

    start: int
    end: int
    reason: str


def copy_log(
    source: LogFiles, end: int, files: Files, directory: str, advance: Callable[[int], None] | None = None
) -> None:
    """Write every segment below ``end`` to ``directory``; missing bytes and those beyond ``end`` are zeros.

    Raises OSError.
    """
    files.makedirs(directory)
    for start in range(source.start, max(end, source.start + 1), source.segment_size):
        target = files.open(f"{directory}/{start:020d}", create=True, size=source.segment_size)
        try:
            _copy_segment(source, start, min(end, start + source.segment_size), target, advance)
            target.sync()
        finally:
            target.close()
    files.sync_dir(directory)


def _copy_segment(source: LogFiles, start: int, end: int, target: File, advance: Callable[[int], None] | None) -> None:
    segment = source.find(start)
    for at in range(0, end - start if segment is not None else 0, _CHUNK_BYTES):
        assert segment is not None
        chunk = segment.read(at, min(_CHUNK_BYTES, end - start - at))
        if chunk.count(0) != len(chunk):
            target.pwrite(at, chunk)
        if advance is not None:
            advance(len(chunk))


def fill_ranges(source: LogFiles, ranges: list[LostRange], files: Files, directory: str) -> list[LostRange]:
    """Replace the ranges in the copied log; return the resulting ranges: joined, at most one per segment.

    A range that is too short for a record includes the record after it.
    """
    done = []
    for one in _by_segment(source, ranges):
        segment_end = one.start - one.start % source.segment_size + source.segment_size
        target = files.open(f"{directory}/{segment_end - source.segment_size:020d}")
        try:
            for offset, raw in fill(one.start, one.end, segment_end, store_ms(source, one)):
                target.pwrite(offset % source.segment_size, raw)
            target.sync()
        finally:
            target.close()
        done.append(one)
    return done


def _by_segment(source: LogFiles, ranges: list[LostRange]) -> list[LostRange]:
    parts: list[LostRange] = []
    for one in sorted(ranges):
        start = one.start
        while start < one.end:
            segment_end = start - start % source.segment_size + source.segment_size
            part = LostRange(start, min(one.end, segment_end), one.reason)
            start = part.end
            before = parts[-1] if parts else None
            if before is not None and before.end > part.start:
                if part.end <= before.end:
                    continue
                part = part._replace(start=before.end)
            if before is not None and before.end == part.start and part.start % source.segment_size:
                part = LostRange(before.start, part.end, before.reason)
                parts.pop()
            parts.append(_long_enough(source, part, segment_end))
    return parts


def _long_enough(source: LogFiles, part: LostRange, segment_end: int) -> LostRange:
    while part.end < segment_end and part.end - part.start < BLANK_RECORD_BYTES_MIN:
        following = record_at(source, part.end)
        part = part._replace(end=following.offset + following.size if following is not None else segment_end)
    return part


def store_ms(source: LogFiles, part: LostRange) -> int:
    """Return a store time between those of the neighbors, so that times do not go back."""
    for segment in reversed(source.segments):
        if segment.start < part.start:
            before = last_record(segment, part.start - segment.start)
            if before is not None:
                return before.store_ms
            break
    following = record_at(source, part.end)
    return following.store_ms if following is not None else 1
