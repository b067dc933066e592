"""Places that an export writes to: directories of a file system, and names in an object store.

Both have the methods of paths. What differs is here: how a text, a file or a tree becomes visible and durable.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import IO, Any, TypeAlias

from pymq.errors import PymqError
from pymq.file_lock import try_lock_file
from pymq.spark.places.directories import is_url
from pymq.spark.places.object_paths import ObjectPath, ObjectStoreError, errors_of

Place: TypeAlias = Path | ObjectPath


class OutputBusyError(PymqError):
    """Another export writes to the directory."""


def place_of(text: str) -> Place:
    """Return the place that a path or a URL names. Raises UsageError."""
    return ObjectPath(text) if is_url(text) else Path(text)


def expanded(text: str) -> Place:
    """Return the absolute place that an operator's path or URL names. Raises UsageError."""
    place = place_of(text)
    return place.expanduser().absolute() if isinstance(place, Path) else place


def relative(place: Place, root: Place) -> str:
    """Return the name of a place below another one of its kind. Raises ValueError."""
    return place.relative_to(root).as_posix()  # type: ignore[arg-type]  # both are of one kind


def make_directory(place: Place) -> None:
    """Make a directory and its parents; an object store needs none."""
    if isinstance(place, Path):
        place.mkdir(parents=True, exist_ok=True)


def write_durably(path: Path, value: Any, indent: int | None = 1) -> None:
    """Write JSON that is there as a whole or not at all, also after a crash of the machine."""
    temporary = path.with_suffix(".tmp")
    with temporary.open("w") as stream:
        json.dump(value, stream, indent=indent)
        stream.flush()
        os.fsync(stream.fileno())
    temporary.replace(path)
    sync_directory(path.parent)


def write_whole(place: Place, text: str) -> None:
    """Write a text so that no reader finds a part of it; a crash of the machine may lose it."""
    if isinstance(place, ObjectPath):
        place.write_text(text)
        return
    unfinished = place.with_name(f"{place.name}.tmp")
    unfinished.write_text(text)
    unfinished.replace(place)


def move_all(root: Path, moves: Iterable[tuple[str, str]]) -> None:
    """Move files to their places, both relative to ``root``; what was moved before stays. Durable on return."""
    touched: set[Path] = set()
    for old, new in moves:
        staged, final = root / old, root / new
        if not staged.exists():
            continue
        if not final.parent.is_dir():
            final.parent.mkdir(parents=True)
            touched.update({final.parent.parent, root})
        staged.replace(final)
        touched.add(final.parent)
    for folder in touched:
        sync_directory(folder)


def remove_tree(place: Place) -> None:
    """Remove what is there, as far as it can: a later run tries again."""
    if isinstance(place, ObjectPath):
        with suppress(ObjectStoreError):
            place.remove_tree()
    else:
        shutil.rmtree(place, ignore_errors=True)


def sync_below(root: Place, files: Iterable[str]) -> None:
    """Make the directories of files durable up to ``root``, which the files are relative to."""
    parents = {parent for file in files for parent in PurePosixPath(file).parents}
    for parent in sorted(parents, reverse=True):  # the deepest first
        sync_directory(root / str(parent))


def sync_directory(place: Place) -> None:
    """Make renames and new files in a directory durable, or a file's content; in an object store they are."""
    if isinstance(place, ObjectPath):
        return
    handle = os.open(place, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class NewFile:
    """A file that is written once: ``target`` is what pyarrow writes to."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._stream = _HashedStream(place) if isinstance(place, ObjectPath) else None
        self.target: Any = self._stream or place

    def finish(self) -> tuple[int, str]:
        """Make it durable, and return its bytes and SHA-256. pyarrow has ended it."""
        if self._stream is not None:
            self._stream.close()
            return self._stream.count, self._stream.digest.hexdigest()
        assert isinstance(self.place, Path)
        # The processor digests while the device writes.
        with self.place.open("rb") as stream, ThreadPoolExecutor(1) as pool:
            written = pool.submit(os.fsync, stream.fileno())
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
            written.result()
            return os.fstat(stream.fileno()).st_size, digest

    def abandon(self) -> None:
        """End it unfinished."""
        if self._stream is not None:
            self._stream.close()


class _HashedStream(io.RawIOBase):
    """The stream of an object, which counts and digests its bytes: reading them again would be another transfer."""

    def __init__(self, place: ObjectPath) -> None:
        self.count = 0
        self.digest = hashlib.sha256()
        self._place = place
        self._to = place.open_output()

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.count

    def write(self, data: Any) -> int:
        size = memoryview(data).nbytes
        self.digest.update(data)
        with errors_of(self._place):
            self._to.write(data)
        self.count += size
        return size

    def close(self) -> None:
        if not self.closed:
            with errors_of(self._place):
                self._to.close()
        super().close()


class FileLock:
    """A lock of a folder. Raises OutputBusyError, whose text names ``what``."""

    def __init__(self, folder: Path, what: str) -> None:
        self._stream: IO[str] = (folder / "lock").open("w")
        if not try_lock_file(self._stream.fileno()):
            self._stream.close()
            raise OutputBusyError(f"another export writes to {what}: wait for it, or use another directory")

    def close(self) -> None:
        """Let others in."""
        self._stream.close()
