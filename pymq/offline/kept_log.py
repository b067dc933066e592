"""Reads a truncated log tail that was kept under ``divergent/``: one file, as the segments that it came from."""

from __future__ import annotations

from pymq.errors import NotFoundError
from pymq.offline.log_files import LogFiles, SegmentFile
from pymq.store.disk.fs import File, Files
from pymq.store.replica.divergent_tail import LOG_SUFFIX


class _Part:
    """A range of a file with the interface of a file."""

    def __init__(self, file: File, start: int, size: int) -> None:
        self._file = file
        self._start = start
        self._size = size

    def pread(self, at: int, size: int) -> bytes:
        return self._file.pread(self._start + at, min(size, self._size - at))

    def pread_into(self, at: int, room: memoryview) -> int:
        return self._file.pread_into(self._start + at, room[: self._size - at])

    def will_read(self, at: int, size: int) -> None:
        self._file.will_read(self._start + at, min(size, self._size - at))

    def next_data(self, at: int) -> int | None:
        found = self._file.next_data(self._start + at)
        return None if found is None or found >= self._start + self._size else found - self._start

    def close(self) -> None:
        self._file.close()


def open_kept_log(files: Files, path: str, segment_size: int) -> LogFiles:
    """Open a kept tail.

    ``path`` is ``<first offset>-<end>-<time>.log``; ``segment_size`` is the original log's, in bytes.

    Raises NotFoundError when the name is not that of a kept tail, OSError.
    """
    name = path.rpartition("/")[2]
    first = name.partition("-")[0]
    if not name.endswith(LOG_SUFFIX) or not first.isdigit() or not segment_size:
        raise NotFoundError(f"{path} is neither a directory nor a truncated log tail that a broker kept")
    file = files.open(path)
    start, end = int(first), int(first) + file.size()
    segments = []
    at = start
    while at < end:
        stop = min(at - at % segment_size + segment_size, end)
        segments.append(SegmentFile(path, at, stop - at, _Part(file, at - start, stop - at)))
        at = stop
    return LogFiles(path.rpartition("/")[0], segment_size, segments, [], [])
