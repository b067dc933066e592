"""A file system in memory that knows what a power loss would keep: for tests and simulation.

Every file has its current content and the content at its last ``sync``; every directory its current entries and those
at its last ``sync_dir``. :meth:`MemoryFiles.after_power_loss` makes the file system a machine would find afterwards.
"""

from __future__ import annotations

import errno
import os
import posixpath
from collections.abc import Callable, Sequence

from pymq.errors import StoreError
from pymq.store.fs import Buffer, File, Lock

PAGE_SIZE_BYTES = 512  # the unit a disk writes as a whole; smaller than a page, so tears are finer

# (path, page number) -> does the unsynced page survive
KeepPage = Callable[[str, int], bool]


class Node:
    """One file's content, whatever it is called. ``synced`` is None until the first sync."""

    __slots__ = ("data", "modified_ms", "synced")

    def __init__(self) -> None:
        self.data = bytearray()
        self.synced: bytes | None = None
        self.modified_ms = 0

    def write(self, at: int, data: Buffer) -> None:
        end = at + len(data)
        if end > len(self.data):
            self.resize(end)
        self.data[at:end] = data

    def resize(self, size: int) -> None:
        # A bytearray with views can't change its size, so the content moves; old views keep the old bytes.
        fresh = bytearray(size)
        kept = min(size, len(self.data))
        fresh[:kept] = memoryview(self.data)[:kept]
        self.data = fresh

    def after_power_loss(self, path: str, keep_page: KeepPage) -> Node:
        """The file as found after a power loss; unsynced pages survive as ``keep_page`` says."""
        node = Node()
        node.modified_ms = self.modified_ms
        before = self.synced if self.synced is not None else b""
        # The length is metadata: it survives with the first page that changed it, else stays.
        size = max(len(before), len(self.data)) if len(self.data) >= len(before) else len(self.data)
        content = bytearray(size)
        content[: min(size, len(before))] = before[:size]
        for page in range((size + PAGE_SIZE_BYTES - 1) // PAGE_SIZE_BYTES):
            start, end = page * PAGE_SIZE_BYTES, min((page + 1) * PAGE_SIZE_BYTES, size)
            now = self.data[start:end]
            if now != content[start:end] and keep_page(path, page):
                content[start:end] = now
        node.data = content
        node.synced = bytes(content)
        return node


class MemoryFile:
    """An open file of :class:`MemoryFiles`."""

    __slots__ = ("_files", "_node", "path")

    def __init__(self, files: MemoryFiles, path: str, node: Node) -> None:
        self._files = files
        self.path = path
        self._node = node

    def pread(self, at: int, size: int) -> bytes:
        self._files.before("pread", self.path)
        return bytes(self._node.data[at : at + size])

    def pwrite(self, at: int, data: Buffer) -> None:
        self._files.before("pwrite", self.path)
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
            if any(data[start : start + 4096]):
                return start
        return None

    def size(self) -> int:
        return len(self._node.data)

    def truncate(self, size: int) -> None:
        self._files.before("truncate", self.path)
        self._node.resize(size)

    def sync(self) -> None:
        self._files.before("sync", self.path)
        self._node.synced = bytes(self._node.data)

    def close(self) -> None:
        return None


class _MemoryLock:
    def __init__(self, held: set[str], path: str) -> None:
        self._held = held
        self._path = path
        held.add(path)

    def release(self) -> None:
        self._held.discard(self._path)


class MemoryFiles:
    """Paths are POSIX text. ``before(call, path)`` runs before each changing or reading call and may raise OSError."""

    def __init__(self, *, free_bytes: int = 1 << 40, now_ms: Callable[[], int] = lambda: 0) -> None:
        self.nodes: dict[str, Node] = {}
        self.directories: set[str] = {"/"}
        self.synced_entries: dict[str, dict[str, Node]] = {}
        self.now_ms = now_ms
        self.fault: Callable[[str, str], None] | None = None
        self._free_bytes = free_bytes
        self._locks: set[str] = set()

    def before(self, call: str, path: str) -> None:
        if self.fault is not None:
            self.fault(call, path)

    def open(self, path: str, *, create: bool = False, size: int | None = None) -> File:
        self.before("open", path)
        node = self.nodes.get(path)
        if node is None:
            if not create or posixpath.dirname(path) not in self.directories:
                raise _missing(path)
            node = self.nodes[path] = Node()
            node.modified_ms = self.now_ms()
        if create and size is not None and len(node.data) < size:
            node.resize(size)
        return MemoryFile(self, path, node)

    def exists(self, path: str) -> bool:
        return path in self.nodes or path in self.directories

    def is_dir(self, path: str) -> bool:
        return path in self.directories

    def listdir(self, path: str) -> list[str]:
        prefix = path.rstrip("/") + "/"
        inside = [name for name in (*self.nodes, *self.directories) if name.startswith(prefix)]
        names = {name[len(prefix) :].partition("/")[0] for name in inside}
        return sorted(names - {""})

    def makedirs(self, path: str) -> None:
        self.before("makedirs", path)
        while path not in self.directories:
            self.directories.add(path)
            path = posixpath.dirname(path)

    def replace(self, source: str, target: str) -> None:
        self.before("replace", target)
        if source not in self.nodes:
            raise _missing(source)
        self.nodes[target] = self.nodes.pop(source)

    def remove(self, path: str) -> None:
        self.before("remove", path)
        if self.nodes.pop(path, None) is None:
            raise _missing(path)

    def remove_tree(self, path: str) -> None:
        self.before("remove_tree", path)
        prefix = path + "/"
        self.nodes = {name: node for name, node in self.nodes.items() if not name.startswith(prefix)}
        self.directories = {name for name in self.directories if name != path and not name.startswith(prefix)}

    def sync_dir(self, path: str) -> None:
        self.before("sync_dir", path)
        self.synced_entries[path] = {name: node for name, node in self.nodes.items() if posixpath.dirname(name) == path}

    def read_bytes(self, path: str) -> bytes:
        self.before("read_bytes", path)
        if path not in self.nodes:
            raise _missing(path)
        return bytes(self.nodes[path].data)

    def free_bytes(self, path: str) -> int:
        return self._free_bytes

    def total_bytes(self, path: str) -> int:
        return 1 << 41

    def modified_ms(self, path: str) -> int:
        return self.nodes[path].modified_ms

    def lock(self, path: str) -> Lock:
        if path in self._locks:
            raise StoreError(f"{path} is locked: another broker uses this directory")
        return _MemoryLock(self._locks, path)

    def after_power_loss(self, keep_page: KeepPage, keep_entry: Callable[[str], bool]) -> MemoryFiles:
        """A new file system holding what was synced and, of the rest, what the two callables keep.

        ``keep_entry(path)`` decides for a directory entry made, renamed or removed since its directory's last
        ``sync_dir``. Directories themselves survive.
        """
        result = MemoryFiles(free_bytes=self._free_bytes, now_ms=self.now_ms)
        result.directories = set(self.directories)
        durable = {path: node for entries in self.synced_entries.values() for path, node in entries.items()}
        for path in sorted(durable.keys() | self.nodes.keys()):
            node = durable.get(path)
            if self.nodes.get(path) is not node and keep_entry(path):
                node = self.nodes.get(path)
            if node is not None and posixpath.dirname(path) in result.directories:
                result.nodes[path] = node.after_power_loss(path, keep_page)
        for path, node in result.nodes.items():
            result.synced_entries.setdefault(posixpath.dirname(path), {})[path] = node
        return result

    def after_kill(self) -> MemoryFiles:
        """The same files after the process died: everything written is there, locks are free."""
        self._locks.clear()
        return self


def _missing(path: str) -> OSError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
