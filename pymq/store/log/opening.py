"""Opens a log's plain and compressed segments at a start, and checks that no segment is missing between them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pymq.errors import StoreError
from pymq.store.disk.fs import File, Files, make_directory
from pymq.store.log.cold_file import ColdFiles
from pymq.store.log.segment import Segment


def open_segments(files: Files, directory: str, segment_size_bytes: int, cold: ColdFiles | None) -> list[Segment]:
    """Open every segment and return them, the oldest first; all but the newest are sealed.

    ``cold``: the directory of compressed segments. Raises StoreError when sizes or names don't fit together.
    """
    make_directory(files, directory)
    names = [name for name in files.listdir(directory) if len(name) == 20 and name.isdigit()]
    cold_names = _cold_names(cold, names, directory)
    segments: list[Segment] = []
    try:
        for name in sorted([*names, *cold_names]):
            file = cold_names[name]() if name in cold_names else files.open(f"{directory}/{name}")
            size = file.size()
            if size == 0 and name == names[-1]:
                file.close()
                files.remove(file.path)  # the process died between creating the file and giving it its size
                continue
            if size == 0:
                file.truncate(segment_size_bytes)  # a power loss took its size and its content
                size = segment_size_bytes
            segment = Segment(int(name), size, file)
            segment.sealed = name in cold_names
            segments.append(segment)
            _check(segments, segment_size_bytes)
    except BaseException:
        for segment in segments:
            segment.close()
        raise
    for segment in segments[:-1]:
        segment.sealed = True
    return segments


def _check(segments: list[Segment], segment_size_bytes: int) -> None:
    """Raise StoreError unless the newest segment has the right size and begins where the one before it ends."""
    newest = segments[-1]
    size = newest.end - newest.start
    if size != segment_size_bytes:
        raise StoreError(
            f"{newest.file.path} has {size} bytes, mappedFileSizeCommitLog is {segment_size_bytes}: "
            f"set it to the size this directory was written with"
        )
    if len(segments) > 1 and segments[-2].end != newest.start:
        raise StoreError(f"{newest.file.path} does not follow the segment before it, which ends at {segments[-2].end}")


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
