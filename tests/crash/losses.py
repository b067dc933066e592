"""Ways to lose power: which of the unsynced pages, directory entries and sizes survive."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import NamedTuple

from xxhash import xxh32_intdigest

from pymq.store.disk.disk_snapshot import (
    PAGE_SIZE_BYTES,
    DiskSnapshot,
    Image,
    KeepPage,
    KeepPath,
    SnapshotDirectory,
    SnapshotEntry,
    SnapshotFile,
)

Pages = set[tuple[str, int]]


class Loss(NamedTuple):
    """One way to lose power."""

    name: str
    keep_page: KeepPage
    keep_entry: KeepPath
    keep_size: KeepPath

    def of(self, snapshot: DiskSnapshot) -> Image:
        return snapshot.after_power_loss(self.keep_page, self.keep_entry, self.keep_size)


def _yes(*_: object) -> bool:
    return True


def _no(*_: object) -> bool:
    return False


DROP_ALL = Loss("drop-all", _no, _no, _no)
KEEP_ENTRIES = Loss("keep-entries", _no, _yes, _no)
KEEP_SIZES = Loss("keep-sizes", _no, _yes, _yes)
KEEP_PAGES = Loss("keep-pages", _yes, _no, _no)
KEEP_ALL = Loss("keep-all", _yes, _yes, _yes)


def random_loss(chance: random.Random, name: str = "random") -> Loss:
    """Keep a random subset of random size. Answers depend on path and page only, not on the order of calls."""
    seed = chance.getrandbits(32)
    pages, entries, sizes = (chance.choice((0.1, 0.5, 0.9)) for _ in range(3))

    def drawn(kind: str, path: str, page: int, share: float) -> bool:
        return xxh32_intdigest(f"{kind}{page}{path}".encode(), seed) < share * 0x1_0000_0000

    return Loss(
        name,
        lambda path, page: drawn("p", path, page, pages),
        lambda path: drawn("e", path, 0, entries),
        lambda path: drawn("s", path, 0, sizes),
    )


def newest_pages(before: DiskSnapshot, now: DiskSnapshot) -> list[tuple[str, int]]:
    """Return the pages that the last call, or a write through a mapping around it, changed, in file order."""
    found = []
    for path, file in _files("", now.root):
        old = _file_at(before.root, path)
        if old is file:
            continue
        content = old.now if old is not None else b""
        for at in range(0, len(file.now), PAGE_SIZE_BYTES):
            page = file.now[at : at + PAGE_SIZE_BYTES]
            if page != content[at : at + PAGE_SIZE_BYTES].ljust(len(page), b"\0"):
                found.append((path, at // PAGE_SIZE_BYTES))
    return found


def torn(newest: list[tuple[str, int]], kept_count: int) -> Loss:
    """Keep everything older, and of the newest write only its first pages."""
    lost = set(newest[kept_count:])
    return Loss(f"torn{kept_count}", lambda path, page: (path, page) not in lost, _yes, _yes)


def reordered(newest: list[tuple[str, int]]) -> Loss:
    """Keep the newest write, and nothing older that is unsynced."""
    kept = set(newest)
    return Loss("reordered", lambda path, page: (path, page) in kept, _yes, _yes)


def _files(path: str, directory: SnapshotDirectory) -> Iterator[tuple[str, SnapshotFile]]:
    for name, entry in sorted(directory.now.items()):
        if isinstance(entry, SnapshotFile):
            yield f"{path}/{name}", entry
        else:
            yield from _files(f"{path}/{name}", entry)


def _file_at(root: SnapshotDirectory, path: str) -> SnapshotFile | None:
    here: SnapshotEntry | None = root
    for name in path.split("/")[1:]:
        if not isinstance(here, SnapshotDirectory):
            return None
        here = here.now.get(name)
    return here if isinstance(here, SnapshotFile) else None
