"""ClosedLog: looks at the log of a stopped broker, before its store is opened."""

from __future__ import annotations

from contextlib import closing

from xxhash import xxh3_64_hexdigest

from pymq.errors import NotFoundError
from pymq.store.disk.fs import Files

NAME_LENGTH = 20  # digits of a segment's name, its first offset
STEP_BYTES = 1 << 20


class ClosedLog:
    """The plain segments of a log. Its end is where the newest segment has only zeros left."""

    def __init__(self, files: Files, root: str, segment_size_bytes: int) -> None:
        """Raise OSError."""
        self._files = files
        self._directory = f"{root}/commitlog"
        self.segment_size_bytes = segment_size_bytes
        names = files.listdir(self._directory) if files.is_dir(self._directory) else []
        starts = sorted(int(name) for name in names if len(name) == NAME_LENGTH and name.isdigit())
        self.start = starts[0] if starts else 0
        self.end = self._find_end(starts)

    def _find_end(self, starts: list[int]) -> int:
        for start in reversed(starts):
            with closing(self._files.open(self._path(start))) as file:
                at = min(file.size(), self.segment_size_bytes)  # a longer one is refused when the store is opened
                while at > 0:
                    low = max(at - STEP_BYTES, 0)
                    if file.next_data(low) is not None:  # a hole takes no time: most of a segment may be one
                        data = file.pread(low, at - low).rstrip(b"\0")
                        if data:
                            return start + low + len(data)
                    at = low
        return self.start

    def tail_digest(self, end: int, tail_bytes: int) -> str:
        """Do as :meth:`MessageStore.tail_digest`, for bytes of one segment. Raises OSError, StoreError."""
        start = end - tail_bytes
        segment = start // self.segment_size_bytes * self.segment_size_bytes
        if not self._files.exists(self._path(segment)):
            raise NotFoundError(f"the log has no plain segment for offset {start}")
        with closing(self._files.open(self._path(segment))) as file:
            return xxh3_64_hexdigest(file.pread(start - segment, tail_bytes))

    def _path(self, start: int) -> str:
        return f"{self._directory}/{start:0{NAME_LENGTH}d}"
