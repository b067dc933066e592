"""Opens a log's plain and compressed segments at a start, and checks that no segment is missing between them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pymq.errors import StoreError
from pymq.store.disk.fs import File, Files, make_directory
from pymq.store.log.cold_file import ColdFiles
from pymq.store.log.segment import Segment


def open_segments(
    files: Files, directory: str, segment_size_bytes: int, cold: ColdFiles | None, vouched_end: int = 0
) -> list[Segment]:
    """Open every segment and return them, the oldest first; all but the newest are sealed.

    ``cold``: the directory of compressed segments. ``vouched_end``: below it the log was on the disk, so no file there
    may be empty. Raises StoreError when sizes or names don't fit together.
    """
    make_directory(files, directory)
    names = [name for name in files.listdir(directory) if len(name) == 20 and name.isdigit()]
    cold_names = _cold_names(cold, names, directory)
    segments: list[Segment] = []
    try:
        for name in sorted([*names, *cold_names]):
            file = cold_names[name]() if name in cold_names else files.open(f"{directory}/{name}")
            size = file.size()
            if size == 0 and int(name) < vouched_end:
                file.close()
                raise StoreError(f"{file.path} is empty, so its messages are lost; {WAYS_OUT}")
            if size == 0 and name == names[-1]:
                file.close()
                files.remove(file.path)  # the process died between creating the file and giving it its size
                continue
            if size == 0:
                file.truncate(segment_size_bytes)  # a power loss took its size and its content
                size = segment_size_bytes
            try:
                _check(segments, int(name), size, file.path, segment_size_bytes)
            except StoreError:
                file.close()
                raise
            segment = Segment(int(name), size, file)
            segment.sealed = name in cold_names
            segments.append(segment)
    except BaseException:
        for segment in segments:
            segment.close()
        raise
    for segment in segments[:-1]:
        segment.sealed = True
    return segments


def _check(before: list[Segment], start: int, size: int, path: str, segment_size_bytes: int) -> None:
    """Raise StoreError unless a segment has the right size and begins where the one before it ends."""
    if size != segment_size_bytes:
        raise StoreError(
            f"{path} has {size} bytes, mappedFileSizeCommitLog is {segment_size_bytes}: set it to the size "
            f"this directory was written with; if only this file has another size, it is damaged: {REPLACE_IT}"
        )
    if before and before[-1].end != start:
        end = before[-1].end
        problem = f"{path} does not follow the segment before it, which ends at {end}"
        if end < start and start % segment_size_bytes == 0:
            problem += f": {lost_segments_text(end, start, segment_size_bytes)}; {WAYS_OUT}"
        raise StoreError(problem)


REPLACE_IT = (
    "put back a good copy, rebuild the directory from another broker (`pymq store recover DIR --from HOST:PORT`), or "
    "make a readable copy of it (`pymq store repair DIR --to NEWDIR`)"
)
WAYS_OUT = (
    "put the files back, rebuild the directory from another broker (`pymq store recover DIR --from HOST:PORT`), or "
    "give up the messages in them (`pymq store accept-loss DIR`)"
)


def lost_segments_text(start: int, end: int, segment_size_bytes: int) -> str:
    """Say which segments are missing between two physical offsets."""
    last = (end - 1) // segment_size_bytes * segment_size_bytes
    if last <= start:
        return f"segment {start:020d} is missing"
    return f"segments {start:020d} to {last:020d} are missing"


def _cold_names(cold: ColdFiles | None, plain_names: list[str], log_directory: str) -> dict[str, Callable[[], File]]:
    """Return name -> function that opens the compressed segment. Where both forms exist, deletes the compressed one."""
    result: dict[str, Callable[[], File]] = {}
    if cold is not None:
        cold.remove_leftovers(log_directory)
        for start in cold.starts():
            if f"{start:020d}" in plain_names:
                cold.remove(start)
            else:
                result[f"{start:020d}"] = partial(cold.open, start)
    return result
