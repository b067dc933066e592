"""A file system at one moment, and what a power loss at that moment leaves: see :mod:`pymq.store.disk.memory_fs`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

from pymq.store.disk.regular_files import FileKind

PAGE_SIZE_BYTES = 512  # the unit a disk writes as a whole; smaller than a memory page, so torn writes are finer

# (path, page number) -> True when the unsynced page survives
KeepPage = Callable[[str, int], bool]
# (path) -> True when its unsynced change survives: a directory entry, or a file's size
KeepPath = Callable[[str], bool]


def always(_path: str) -> bool:
    return True


class SnapshotFile:
    """One file at one moment: its content, and the content that is on the disk (``synced``)."""

    __slots__ = ("_pages", "now", "synced")

    def __init__(self, now: bytes, synced: bytes | None) -> None:
        self.now = now
        self.synced = synced
        self._pages: list[int] | None = None  # computed on first use

    @property
    def changed_pages(self) -> list[int]:
        if self._pages is None:
            self._pages = _changed_pages(self.synced or b"", self.now)
        return self._pages

    @property
    def is_synced(self) -> bool:
        return not self.changed_pages and len(self.synced or b"") == len(self.now)

    def after_power_loss(self, path: str, keep_page: KeepPage, keep_size: KeepPath) -> bytes:
        """Return the content after a power loss.

        A new size survives when ``keep_size`` returns True, or when a kept page needs it: journaling file systems never
        write blocks behind the old size before the new size.
        """
        before, now = self.synced or b"", self.now
        if self.is_synced:
            return now
        kept = [page for page in self.changed_pages if keep_page(path, page)]
        needed = bool(kept) and (kept[-1] + 1) * PAGE_SIZE_BYTES > len(before)
        size = len(now) if needed or keep_size(path) else len(before)
        if size == len(now) and len(kept) == len(self.changed_pages):
            return now
        content = bytearray(before[:size])
        content += bytes(size - len(content))
        for page in kept:
            start = page * PAGE_SIZE_BYTES
            share = now[start : min(start + PAGE_SIZE_BYTES, size)]
            content[start : start + len(share)] = share
        return bytes(content)


def _changed_pages(before: bytes, now: bytes) -> list[int]:
    """Return the numbers of the pages of ``now`` that differ. Bytes behind the end of ``before`` count as zeros."""
    if before == now:
        return []
    before = before.ljust(len(now), b"\0")
    starts = range(0, len(now), PAGE_SIZE_BYTES)
    return [
        at // PAGE_SIZE_BYTES for at in starts if now[at : at + PAGE_SIZE_BYTES] != before[at : at + PAGE_SIZE_BYTES]
    ]


class SnapshotDirectory(NamedTuple):
    """A directory's entries at one moment: as a process sees them, and as they are on the disk."""

    now: Mapping[str, SnapshotEntry]
    synced: Mapping[str, SnapshotEntry]


SnapshotEntry: TypeAlias = SnapshotFile | SnapshotDirectory


class Image(NamedTuple):
    """The content of a disk when a machine starts: files by path, directories, and what is neither."""

    files: dict[str, bytes]
    directories: list[str]
    odd: Mapping[str, FileKind] = {}


class DiskSnapshot:
    """A whole file system at one moment."""

    __slots__ = ("_certain", "_doubtful", "root")

    def __init__(self, root: SnapshotDirectory) -> None:
        self.root = root
        # What every crash leaves, and the entries and files of which a crash may leave more than one version.
        self._certain: Image | None = None
        self._doubtful: list[tuple[str, SnapshotEntry | None, SnapshotEntry | None]] = []

    def image(self) -> Image:
        """Return what is left when only the process dies: everything."""
        return self.after_power_loss(lambda _path, _page: True, always)

    def after_power_loss(self, keep_page: KeepPage, keep_entry: KeepPath, keep_size: KeepPath = always) -> Image:
        """Return what was synced and, of the rest, what the callables keep.

        ``keep_entry(path)`` decides for a directory entry made, renamed or removed since its directory's last
        ``sync_dir``, ``keep_size(path)`` for a file whose size was changed since its last ``sync``. A lost directory
        takes its content with it.
        """
        if self._certain is None:
            self._certain = Image({}, [])
            self._divide("", self.root, self._certain)
        result = Image(dict(self._certain.files), list(self._certain.directories))

        def walk(path: str, now: SnapshotEntry | None, synced: SnapshotEntry | None) -> None:
            entry = now if now is not synced and keep_entry(path) else synced
            if isinstance(entry, SnapshotFile):
                result.files[path] = entry.after_power_loss(path, keep_page, keep_size)
            elif entry is not None:
                result.directories.append(path)
                for name in sorted(entry.now.keys() | entry.synced.keys()):
                    walk(f"{path}/{name}", entry.now.get(name), entry.synced.get(name))

        for path, now, synced in self._doubtful:
            walk(path, now, synced)
        return result

    def _divide(self, path: str, directory: SnapshotDirectory, certain: Image) -> None:
        certain.directories.append(path or "/")
        for name in sorted(directory.now.keys() | directory.synced.keys()):
            child, now, synced = f"{path}/{name}", directory.now.get(name), directory.synced.get(name)
            if now is synced and isinstance(now, SnapshotDirectory):
                self._divide(child, now, certain)
            elif now is synced and isinstance(now, SnapshotFile) and now.is_synced:
                certain.files[child] = now.now
            else:
                self._doubtful.append((child, now, synced))
