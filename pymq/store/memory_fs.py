"""A file system in memory that knows what a power loss would keep: for tests and simulation.

Every file has its current content and the content at its last ``sync``; every directory its current entries and those
at its last ``sync_dir``. :meth:`MemoryFiles.freeze` keeps such a state cheaply (unchanged contents are shared), and
:meth:`Frozen.after_power_loss` says what a machine would find afterwards.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from pymq.errors import StoreError
from pymq.store.fs import Buffer, File, Lock

PAGE_SIZE_BYTES = 512  # the unit a disk writes as a whole; smaller than a page, so tears are finer

# (path, page number) -> does the unsynced page survive
KeepPage = Callable[[str, int], bool]
# (path) -> does what is not synced of it survive: an entry of a directory, a file's size
KeepPath = Callable[[str], bool]


def _always(_path: str) -> bool:
    return True


class Node:
    """One file's content, whatever it is called. ``synced`` is None until the first sync."""

    __slots__ = ("data", "frozen", "modified_ms", "synced")

    def __init__(self, data: bytes = b"", synced: bytes | None = None) -> None:
        self.data = bytearray(data)
        self.synced = synced
        self.modified_ms = 0
        self.frozen: FrozenFile | None = None

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

    def sync(self) -> None:
        self.synced = self.freeze().now

    def freeze(self) -> FrozenFile:
        """The file as it is now; the same object as before when nothing has changed."""
        before = self.frozen
        if before is None or before.now != self.data:
            before = FrozenFile(bytes(self.data), self.synced)
        elif before.synced is not self.synced:
            before = FrozenFile(before.now, self.synced)
        self.frozen = before
        return before


class Directory:
    """What of a directory is on the disk: its entries at the last ``sync_dir``."""

    __slots__ = ("synced",)

    def __init__(self) -> None:
        self.synced: dict[str, Node | Directory] = {}


class FrozenFile:
    """One file at one moment: its content and what of it is on the disk."""

    __slots__ = ("changed_pages", "now", "synced")

    def __init__(self, now: bytes, synced: bytes | None) -> None:
        self.now = now
        self.synced = synced
        self.changed_pages = _changed_pages(synced or b"", now)

    @property
    def is_synced(self) -> bool:
        return not self.changed_pages and len(self.synced or b"") == len(self.now)

    def after_power_loss(self, path: str, keep_page: KeepPage, keep_size: KeepPath) -> bytes:
        """The content found afterwards. A new size survives as ``keep_size`` says, and with a page that needs it.

        Journaling file systems order the changes of one file: blocks behind the old size never come before the size.
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
    """Pages of ``now`` that differ; what lies behind the end of ``before`` counts as zeros there."""
    if before == now:
        return []
    before = before.ljust(len(now), b"\0")
    starts = range(0, len(now), PAGE_SIZE_BYTES)
    return [
        at // PAGE_SIZE_BYTES for at in starts if now[at : at + PAGE_SIZE_BYTES] != before[at : at + PAGE_SIZE_BYTES]
    ]


class FrozenDirectory(NamedTuple):
    """A directory's entries at one moment, as a process sees them and as the disk has them."""

    now: Mapping[str, FrozenEntry]
    synced: Mapping[str, FrozenEntry]


FrozenEntry: TypeAlias = FrozenFile | FrozenDirectory


class Image(NamedTuple):
    """What a machine finds on its disk: contents by path, and directories."""

    files: dict[str, bytes]
    directories: list[str]


class Frozen:
    """A whole file system at one moment."""

    __slots__ = ("_certain", "_doubtful", "root")

    def __init__(self, root: FrozenDirectory) -> None:
        self.root = root
        # What every crash leaves, and the entries and files that it may leave in more than one way.
        self._certain: Image | None = None
        self._doubtful: list[tuple[str, FrozenEntry | None, FrozenEntry | None]] = []

    def image(self) -> Image:
        """What is there when only the process dies: everything."""
        return self.after_power_loss(lambda _path, _page: True, _always)

    def after_power_loss(self, keep_page: KeepPage, keep_entry: KeepPath, keep_size: KeepPath = _always) -> Image:
        """What was synced and, of the rest, what the callables keep.

        ``keep_entry(path)`` decides for a directory entry made, renamed or removed since its directory's last
        ``sync_dir``, ``keep_size(path)`` for the size of a file whose size was changed since its last ``sync``. What
        is in a directory is lost with the directory.
        """
        if self._certain is None:
            self._certain = Image({}, [])
            self._divide("", self.root, self._certain)
        result = Image(dict(self._certain.files), list(self._certain.directories))

        def walk(path: str, now: FrozenEntry | None, synced: FrozenEntry | None) -> None:
            entry = now if now is not synced and keep_entry(path) else synced
            if isinstance(entry, FrozenFile):
                result.files[path] = entry.after_power_loss(path, keep_page, keep_size)
            elif entry is not None:
                result.directories.append(path)
                for name in sorted(entry.now.keys() | entry.synced.keys()):
                    walk(f"{path}/{name}", entry.now.get(name), entry.synced.get(name))

        for path, now, synced in self._doubtful:
            walk(path, now, synced)
        return result

    def _divide(self, path: str, directory: FrozenDirectory, certain: Image) -> None:
        certain.directories.append(path or "/")
        for name in sorted(directory.now.keys() | directory.synced.keys()):
            child, now, synced = f"{path}/{name}", directory.now.get(name), directory.synced.get(name)
            if now is synced and isinstance(now, FrozenDirectory):
                self._divide(child, now, certain)
            elif now is synced and isinstance(now, FrozenFile) and now.is_synced:
                certain.files[child] = now.now
            else:
                self._doubtful.append((child, now, synced))


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


_Entry: TypeAlias = Node | Directory


class MemoryFiles:
    """Paths are POSIX text. ``fault(call, path)`` runs before each changing or reading call and may raise OSError."""

    def __init__(self, *, free_bytes: int = 1 << 40, now_ms: Callable[[], int] = lambda: 0) -> None:
        self.nodes: dict[str, Node] = {}
        self.directories: dict[str, Directory] = {"/": Directory()}
        self.now_ms = now_ms
        self.fault: Callable[[str, str], None] | None = None
        self.failing_write_bytes = 0  # so much of a write reaches the file when ``fault`` lets it fail
        self._free_bytes = free_bytes
        self._locks: set[str] = set()

    @classmethod
    def restored(cls, image: Image, *, now_ms: Callable[[], int] = lambda: 0) -> MemoryFiles:
        """The file system of a machine that has just started: everything that is there is on the disk."""
        files = cls(now_ms=now_ms)
        files.directories = {path: Directory() for path in image.directories}
        files.nodes = {path: Node(content, content) for path, content in image.files.items()}
        for entries in (files.directories, files.nodes):
            for path, entry in entries.items():
                if path != "/":
                    files.directories[_parent(path)].synced[_name(path)] = entry
        return files

    def before(self, call: str, path: str) -> None:
        if self.fault is not None:
            self.fault(call, path)

    def open(self, path: str, *, create: bool = False, size: int | None = None) -> File:
        self.before("open", path)
        node = self.nodes.get(path)
        if node is None:
            if not create or _parent(path) not in self.directories:
                raise _missing(path)
            node = self.nodes[path] = Node()
            node.modified_ms = self.now_ms()
        file = MemoryFile(self, path, node)
        if create and size is not None and len(node.data) < size:
            file.truncate(size)
        return file

    def exists(self, path: str) -> bool:
        return path in self.nodes or path in self.directories

    def is_dir(self, path: str) -> bool:
        return path in self.directories

    def listdir(self, path: str) -> list[str]:
        prefix = path.rstrip("/") + "/"
        size = len(prefix)
        names = [name[size:] for name in (*self.nodes, *self.directories) if name.startswith(prefix)]
        return sorted(name for name in names if name and "/" not in name)

    def makedirs(self, path: str) -> None:
        self.before("makedirs", path)
        while path not in self.directories:
            self.directories[path] = Directory()
            path = _parent(path)

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
        """File by file and directory by directory, as a real one: a death in between leaves a part."""
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
        prefix = path.rstrip("/") + "/"
        size = len(prefix)
        inside: dict[str, _Entry] = {}
        for entries in (self.directories, self.nodes):
            for child, entry in entries.items():
                if child.startswith(prefix) and "/" not in child[size:] and child != path:
                    inside[child[size:]] = entry
        self.directories[path].synced = inside

    def _entries(self) -> dict[str, dict[str, _Entry]]:
        """What is in each directory now."""
        found: dict[str, dict[str, _Entry]] = {path: {} for path in self.directories}
        for path, directory in self.directories.items():
            if path != "/":
                found[_parent(path)][_name(path)] = directory
        for path, node in self.nodes.items():
            found[_parent(path)][_name(path)] = node
        return found

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
        if path not in self.nodes:
            raise _missing(path)
        return self.nodes[path].modified_ms

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

    def freeze(self) -> Frozen:
        """The state of this moment, for later."""
        entries = self._entries()
        path_of = {id(directory): path for path, directory in self.directories.items()}

        def freeze(entry: _Entry) -> FrozenEntry:
            if isinstance(entry, Node):
                return entry.freeze()
            known = done.get(id(entry))
            if known is None:
                # A directory that was removed holds nothing now.
                path = path_of.get(id(entry))
                inside = entries[path] if path is not None else {}
                now = {name: freeze(child) for name, child in inside.items()}
                known = FrozenDirectory(now, {name: freeze(child) for name, child in entry.synced.items()})
                done[id(entry)] = known
            return known

        done: dict[int, FrozenDirectory] = {}
        root = freeze(self.directories["/"])
        assert isinstance(root, FrozenDirectory)
        return Frozen(root)

    def after_power_loss(self, keep_page: KeepPage, keep_entry: KeepPath, keep_size: KeepPath = _always) -> MemoryFiles:
        """The file system after a power loss now; see :meth:`Frozen.after_power_loss`."""
        image = self.freeze().after_power_loss(keep_page, keep_entry, keep_size)
        files = MemoryFiles.restored(image, now_ms=self.now_ms)
        files._free_bytes = self._free_bytes
        for path, node in files.nodes.items():
            if path in self.nodes:
                node.modified_ms = self.nodes[path].modified_ms
        return files

    def after_kill(self) -> MemoryFiles:
        """The same files after the process died: everything written is there, locks are free."""
        self._locks.clear()
        return self


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _missing(path: str) -> OSError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
