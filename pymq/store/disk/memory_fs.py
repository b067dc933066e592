"""A file system in memory that knows what a power loss would keep, for tests and simulation.

Every file has its current content and the content at its last ``sync``. Every directory has its current entries and
those at its last ``sync_dir``. :meth:`MemoryFiles.snapshot` keeps such a state cheaply, for it shares unchanged
contents. :meth:`DiskSnapshot.after_power_loss` returns what a machine would find afterwards.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

from pymq.errors import StoreError
from pymq.store.disk.disk_snapshot import (
    DiskSnapshot,
    Image,
    KeepPage,
    KeepPath,
    SnapshotDirectory,
    SnapshotEntry,
    SnapshotFile,
    always,
)
from pymq.store.disk.fs import Begin, Buffer, File, Lock, sync_one_by_one
from pymq.store.disk.regular_files import FileKind, check_whole_size, odd_kind


class FileNode:
    """One file's content, independent of its name. ``synced`` is None until the first sync."""

    __slots__ = ("data", "last_snapshot", "modified_ms", "synced")

    def __init__(self, data: bytes = b"", synced: bytes | None = None) -> None:
        self.data = bytearray(data)
        self.synced = synced
        self.modified_ms = 0
        self.last_snapshot: SnapshotFile | None = None

    def write(self, at: int, data: Buffer) -> None:
        end = at + len(data)
        if end > len(self.data):
            self.resize(end)
        self.data[at:end] = data

    def resize(self, size: int) -> None:
        # A bytearray with views can't change its size, so the content moves. Old views keep the old bytes.
        fresh = bytearray(size)
        kept = min(size, len(self.data))
        fresh[:kept] = memoryview(self.data)[:kept]
        self.data = fresh

    def sync(self) -> None:
        self.synced = self.snapshot().now

    def forget(self) -> None:
        """Free the content of a file that no running program has open. Views keep the old bytes."""
        self.data = bytearray()
        self.synced = self.last_snapshot = None

    def snapshot(self) -> SnapshotFile:
        """Return the file as it is now; the same object as last time when nothing has changed."""
        before = self.last_snapshot
        if before is None or before.now != self.data:
            before = SnapshotFile(bytes(self.data), self.synced)
        elif before.synced is not self.synced:
            before = SnapshotFile(before.now, self.synced)
        self.last_snapshot = before
        return before


class DirectoryNode:
    """The entries of a directory that are on the disk: those at its last ``sync_dir``."""

    __slots__ = ("synced",)

    def __init__(self) -> None:
        self.synced: dict[str, FileNode | DirectoryNode] = {}


class MemoryFile:
    """An open file of :class:`MemoryFiles`."""

    __slots__ = ("_files", "_node", "path")

    def __init__(self, files: MemoryFiles, path: str, node: FileNode) -> None:
        self._files = files
        self.path = path
        self._node = node

    def pread(self, at: int, size: int) -> bytes:
        self._files.before("pread", self.path)
        return bytes(self._node.data[at : at + size])

    def pread_into(self, at: int, room: memoryview) -> int:
        self._files.before("pread", self.path)
        with memoryview(self._node.data)[at : at + len(room)] as data:
            room[: len(data)] = data
            return len(data)

    def will_read(self, at: int, size: int) -> None:
        return None

    def pwrite(self, at: int, data: Buffer) -> None:
        try:
            self._files.before("pwrite", self.path)
        except OSError:
            self._node.write(at, data[: self._files.failing_write_bytes])
            raise
        self._node.write(at, data)
        self._node.modified_ms = self._files.now_ms()

    def pwritev(self, at: int, buffers: Sequence[Buffer]) -> None:
        self.pwrite(at, b"".join(buffers))

    def view(self) -> memoryview:
        return memoryview(self._node.data).toreadonly()

    def writable_view(self) -> memoryview:
        return memoryview(self._node.data)

    def release(self, view: memoryview) -> None:
        return None

    def allocate(self, at: int, size: int) -> None:
        self._files.before("allocate", self.path)
        if at + size > len(self._node.data):
            self._node.resize(at + size)

    def next_data(self, at: int) -> int | None:
        data = self._node.data
        for start in range(at, len(data), 4096):
            if data.count(0, start, start + 4096) < min(4096, len(data) - start):
                return start
        return None

    def size(self) -> int:
        return len(self._node.data)

    def truncate(self, size: int) -> None:
        self._files.before("truncate", self.path)
        self._node.resize(size)

    def sync(self) -> None:
        self._files.before("sync", self.path)
        self._node.sync()

    def close(self) -> None:
        return None


class _MemoryLock:
    def __init__(self, held: set[str], path: str) -> None:
        self._held = held
        self._path = path
        held.add(path)

    def release(self) -> None:
        self._held.discard(self._path)


_Entry: TypeAlias = FileNode | DirectoryNode
_EntryT = TypeVar("_EntryT", bound=_Entry)


class _Names(dict[str, _EntryT]):
    """Entries by path, and by name within each directory: look-ups by directory are the commonest."""

    def __init__(self) -> None:
        super().__init__()
        self._inside: dict[str, dict[str, _EntryT]] = {}

    def __setitem__(self, path: str, entry: _EntryT) -> None:
        super().__setitem__(path, entry)
        if path != "/":
            self._inside.setdefault(_parent(path), {})[_name(path)] = entry

    def __delitem__(self, path: str) -> None:
        self.pop(path)

    def pop(self, path: str, *default: Any) -> Any:
        entry = super().pop(path, *default)
        self._inside.get(_parent(path), {}).pop(_name(path), None)
        return entry

    def inside(self, directory: str) -> dict[str, _EntryT]:
        """Return the entries of a directory by name; the caller changes nothing."""
        return self._inside.get(directory, {})


class MemoryFiles:
    """The file system. Paths are POSIX text.

    ``fault(call, path)`` runs before each changing or reading call and may raise OSError.
    """

    def __init__(self, *, free_bytes: int = 1 << 40, now_ms: Callable[[], int] = lambda: 0) -> None:
        self.nodes = _Names[FileNode]()
        self.directories = _Names[DirectoryNode]()
        self.directories["/"] = DirectoryNode()
        self.odd: dict[str, FileKind] = {}  # what is neither a file nor a directory; a crash keeps it
        self.now_ms = now_ms
        self.fault: Callable[[str, str], None] | None = None
        self.failing_write_bytes = 0  # bytes that reach the file before a write that ``fault`` lets fail
        self._free_bytes = free_bytes
        self._locks: set[str] = set()

    @classmethod
    def restored(cls, image: Image, *, now_ms: Callable[[], int] = lambda: 0) -> MemoryFiles:
        """Return the file system of a machine that has just started: everything in it is on the disk."""
        files = cls(now_ms=now_ms)
        files.odd = dict(image.odd)
        files.directories = _Names()
        for path in image.directories:
            files.directories[path] = DirectoryNode()
        for path, content in image.files.items():
            files.nodes[path] = FileNode(content, content)
        for path, directory in files.directories.items():
            directory.synced = files._inside(path)
        return files

    def before(self, call: str, path: str) -> None:
        if self.fault is not None:
            self.fault(call, path)

    def open(self, path: str, *, create: bool = False, size: int | None = None) -> File:
        self.before("open", path)
        self._refuse_odd(path)
        node = self.nodes.get(path)
        if node is None:
            if not create or _parent(path) not in self.directories:
                raise _missing(path)
            node = self.nodes[path] = FileNode()
            node.modified_ms = self.now_ms()
        file = MemoryFile(self, path, node)
        if create and size is not None and len(node.data) < size:
            file.truncate(size)
        return file

    def begin_of(self, path: str, size: int) -> Begin:
        file = self.open(path)
        return Begin(file.pread(0, size), file.size(), file.next_data(size) is not None)

    def exists(self, path: str) -> bool:
        return path in self.nodes or path in self.directories or path in self.odd

    def is_dir(self, path: str) -> bool:
        return path in self.directories

    def listdir(self, path: str) -> list[str]:
        directory = path.rstrip("/") or "/"
        odd = [_name(each) for each in self.odd if _parent(each) == directory]
        return sorted([*self.nodes.inside(directory), *self.directories.inside(directory), *odd])

    def entries(self, path: str) -> dict[str, FileKind]:
        above = path.rstrip("/")
        return {name: kind for name in self.listdir(path) if (kind := self.kind(f"{above}/{name}")) is not None}

    def kind(self, path: str) -> FileKind | None:
        if path in self.odd:
            return self.odd[path]
        if path in self.directories:
            return FileKind.DIRECTORY
        return FileKind.FILE if path in self.nodes else None

    def _refuse_odd(self, path: str, wanted: FileKind = FileKind.FILE) -> None:
        kind = self.kind(path)
        if kind not in (wanted, None):
            raise odd_kind(path, kind, wanted)

    def makedirs(self, path: str) -> None:
        self.before("makedirs", path)
        self._refuse_odd(path, FileKind.DIRECTORY)
        while path not in self.directories:
            self.directories[path] = DirectoryNode()
            path = _parent(path)

    def replace(self, source: str, target: str) -> None:
        self.before("replace", target)
        if source in self.directories:
            self._move_directory(source, target)
            return
        if source not in self.nodes:
            raise _missing(source)
        self.odd.pop(target, None)
        self.nodes[target] = self.nodes.pop(source)

    def _move_directory(self, source: str, target: str) -> None:
        self._move(self.directories, source, target)
        self._move(self.nodes, source, target)

    @staticmethod
    def _move(entries: _Names[_EntryT], source: str, target: str) -> None:
        for path in [path for path in entries if path == source or path.startswith(source + "/")]:
            entries[target + path[len(source) :]] = entries.pop(path)

    def remove(self, path: str) -> None:
        self.before("remove", path)
        if self.odd.pop(path, None) is None and self.nodes.pop(path, None) is None:
            raise _missing(path)

    def remove_tree(self, path: str) -> None:
        """Remove file by file and directory by directory, as a real disk does: a crash in between leaves a part."""
        prefix = path + "/"
        for name in [name for name in self.nodes if name.startswith(prefix)]:
            self.before("remove_tree", name)
            del self.nodes[name]
        for name in sorted((name for name in self.directories if (name + "/").startswith(prefix)), reverse=True):
            self.before("remove_tree", name)
            del self.directories[name]

    def sync_dir(self, path: str) -> None:
        self.before("sync_dir", path)
        if path not in self.directories:
            raise _missing(path)
        self.directories[path].synced = self._inside(path.rstrip("/") or "/")

    def sync_together(self, paths: Sequence[str], directories: Sequence[str]) -> None:
        sync_one_by_one(self, paths, directories)

    def _inside(self, directory: str) -> dict[str, _Entry]:
        return {**self.directories.inside(directory), **self.nodes.inside(directory)}

    def read_bytes(self, path: str) -> bytes:
        self.before("read_bytes", path)
        self._refuse_odd(path)
        if path not in self.nodes:
            raise _missing(path)
        check_whole_size(path, len(self.nodes[path].data))
        return bytes(self.nodes[path].data)

    def free_bytes(self, path: str) -> int:
        return self._free_bytes

    def total_bytes(self, path: str) -> int:
        return 1 << 41

    def modified_ms(self, path: str) -> int:
        if path not in self.nodes:
            raise _missing(path)
        return self.nodes[path].modified_ms

    def mode(self, path: str) -> int:
        return 0o700 if path in self.directories else 0o600

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        self.before("set_modified_ms", path)
        if path not in self.nodes:
            raise _missing(path)
        self.nodes[path].modified_ms = modified_ms

    def lock(self, path: str) -> Lock:
        if path in self._locks:
            raise StoreError(f"{path} is locked: another broker uses this directory")
        return _MemoryLock(self._locks, path)

    # -- crashes ------------------------------------------------------------------------------------------------

    def snapshot(self) -> DiskSnapshot:
        """Return the state of this moment, for later."""
        path_of = {id(directory): path for path, directory in self.directories.items()}

        def snapshot(entry: _Entry) -> SnapshotEntry:
            if isinstance(entry, FileNode):
                return entry.snapshot()
            known = done.get(id(entry))
            if known is None:
                # A directory that was removed holds nothing now.
                path = path_of.get(id(entry))
                inside = self._inside(path) if path is not None else {}
                now = {name: snapshot(child) for name, child in inside.items()}
                known = SnapshotDirectory(now, {name: snapshot(child) for name, child in entry.synced.items()})
                done[id(entry)] = known
            return known

        done: dict[int, SnapshotDirectory] = {}
        root = snapshot(self.directories["/"])
        assert isinstance(root, SnapshotDirectory)
        return DiskSnapshot(root)

    def after_power_loss(self, keep_page: KeepPage, keep_entry: KeepPath, keep_size: KeepPath = always) -> MemoryFiles:
        """Return the file system after a power loss now; see :meth:`DiskSnapshot.after_power_loss`."""
        image = self.snapshot().after_power_loss(keep_page, keep_entry, keep_size)
        files = MemoryFiles.restored(image, now_ms=self.now_ms)
        files._free_bytes = self._free_bytes
        for path, node in files.nodes.items():
            if path in self.nodes:
                node.modified_ms = self.nodes[path].modified_ms
        return files

    def after_kill(self) -> MemoryFiles:
        """Return the same files after the process died: everything written is there, locks are free."""
        self._locks.clear()
        return self


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _missing(path: str) -> OSError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
