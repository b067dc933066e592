"""AuditFile: lines appended to ``audit.log`` in a directory, moved on to ``audit.log.1`` and further by its size.

Only its owner can use directory and files. Existing ones with another mode are corrected.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from pymq.file_modes import DIRECTORY_MODE, FILE_MODE

FILE_NAME: Final = "audit.log"


class AuditFile:
    """Keeps at most ``count_max`` files of at most ``size_max_bytes`` each, the newest in ``audit.log``."""

    def __init__(self, directory: str, size_max_bytes: int, count_max: int) -> None:
        self.path = Path(directory).expanduser() / FILE_NAME
        self._size_max_bytes = size_max_bytes
        self._count_max = count_max
        self._descriptor = -1
        self._size_bytes = 0
        self._is_torn = False  # the file does not end with a line's end

    def write(self, line: bytes) -> None:
        """Append one line, which ends with a line break. Raises OSError; the next call opens the file again."""
        try:
            if self._descriptor < 0:
                self._open()
            if self._size_bytes and self._size_bytes + len(line) > self._size_max_bytes:
                self._rotate()
            self._append(line)
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        """Close the file; :meth:`write` opens it again."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)

    def _open(self) -> None:
        self.path.parent.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
        # A link could lead the lines, and the mode, to any other file.
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._descriptor = os.open(self.path, flags, FILE_MODE)
        found = os.fstat(self._descriptor)
        if stat.S_IMODE(found.st_mode) != FILE_MODE:
            os.fchmod(self._descriptor, FILE_MODE)
        self._size_bytes = found.st_size
        # After a crash, or on a full disk, the last line may be a part of one.
        self._is_torn = self._size_bytes > 0 and os.pread(self._descriptor, 1, self._size_bytes - 1) != b"\n"

    def _append(self, line: bytes) -> None:
        data = b"\n" + line if self._is_torn else line
        written = os.write(self._descriptor, data)
        self._size_bytes += written
        self._is_torn = written < len(data)
        if self._is_torn:
            raise OSError(f"{written} of {len(data)} bytes were written: is the disk full?")

    def _rotate(self) -> None:
        self.close()
        names = [self.path, *(Path(f"{self.path}.{number}") for number in range(1, self._count_max))]
        for older, newer in zip(reversed(names), [*reversed(names[:-1]), None], strict=True):
            if newer is None:
                older.unlink(missing_ok=True)  # there is one file only
            elif newer.exists():
                newer.replace(older)
        self._open()
