"""A store that is the source of recoveries, and equal directories for tests to damage."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pymq.clock import ManualClock
from pymq.errors import UnreachableError
from pymq.offline.log_source import SourceFacts
from pymq.offline.recover import Recovery, RecoveryOutcome
from pymq.offline.recover_log import Advance
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.integrity.log_digests import chunk_bounds, chunk_digest
from pymq.store.store import MessageStore
from tests.store.support import ROOT, everything, make_store, put

SEGMENT_BYTES = 16 * 1024
SETTINGS: dict[str, Any] = {"segment_size_bytes": SEGMENT_BYTES, "index_slot_count": 5}
NAMES = ("broker-a", "east")
TOPICS = b'{"topicConfigTable":{"broker-a":{},"east":{},"orders":{}},"dataVersion":{}}'
GROUPS = b'{"subscriptionGroupTable":{"billing":{}},"dataVersion":{}}'
TABLES = {"topics.json": TOPICS, "subscriptionGroup.json": GROUPS, "consumerOffset.json": b'{"offsetTable":{}}'}


class Source:
    """An open store that answers as a broker does. ``digest_count_max``: chunks in one answer."""

    def __init__(self, store: MessageStore, names: tuple[str, str] = NAMES, digest_count_max: int = 3) -> None:
        self.store = store
        self.names = names
        self.digest_count_max = digest_count_max
        self.given_tables = dict(TABLES)
        self.read_bytes = 0
        self.spoil = False  # sends other bytes than the store has
        self.failing_reads = range(0)  # by number
        self.read_count = 0
        self.is_master = False

    def facts(self) -> SourceFacts:
        low, high = self.store.physical_min_offset, self.store.physical_max_offset
        return SourceFacts("10.0.0.2:10911", self.names[1], self.names[0], SEGMENT_BYTES, low, high, self.is_master)

    def digests(self, start: int, end: int, chunk_bytes: int) -> list[str]:
        chunks = list(chunk_bounds(start, end, chunk_bytes, SEGMENT_BYTES))[: self.digest_count_max]
        return [chunk_digest(self.store._log, one, stop) for one, stop in chunks]

    def read(self, start: int, end: int) -> bytes:
        segment = self.store._log.find(start)
        assert segment is not None and end <= segment.end
        self.read_count += 1
        if self.read_count in self.failing_reads:
            raise UnreachableError("10.0.0.2:10911 can't be reached")
        self.read_bytes += end - start
        data = bytes(segment.read(start - segment.start, end - start))
        return bytes([data[0] ^ 1]) + data[1:] if self.spoil else data

    def tables(self) -> dict[str, bytes]:
        return dict(self.given_tables)

    def deleted_topics(self) -> dict[str, int]:
        assert self.store._queues.deleted is not None
        return self.store._queues.deleted.ends


def fill(store: MessageStore, count: int, start: int = 0) -> None:
    """Store messages of 600 bytes with keys in three queues."""
    for number in range(start, start + count):
        put(store, "orders", number % 3, b"%06d" % number * 100, keys=f"k{number}")
    store.tick()


def pair(count: int = 120, **settings: Any) -> tuple[Source, MemoryFiles]:
    """Return a source with ``count`` messages and a cleanly stopped directory with the same."""
    files = MemoryFiles()
    store = make_store(files, ManualClock(), **{**SETTINGS, **settings})
    store.open()
    fill(store, count)
    store.close()
    for name, raw in TABLES.items():
        write(files, f"{ROOT}/config/{name}", raw)
    local = copy.deepcopy(files)
    store.open()
    return Source(store), local


def write(files: MemoryFiles, path: str, raw: bytes) -> None:
    file = files.open(path, create=True)
    file.truncate(0)
    file.pwrite(0, raw)
    file.sync()
    file.close()
    files.sync_dir(path.rpartition("/")[0])


def segment_path(number: int) -> str:
    return f"{ROOT}/commitlog/{number * SEGMENT_BYTES:020d}"


def flip(files: MemoryFiles, path: str, at: int) -> None:
    """Flip one bit of a file."""
    file = files.open(path)
    file.pwrite(at, bytes([file.pread(at, 1)[0] ^ 16]))
    file.close()


@contextmanager
def no_stage(_name: str, _total: int) -> Iterator[Advance]:
    yield lambda _: None


def recover(files: MemoryFiles, source: Source, *, force: bool = False) -> RecoveryOutcome:
    return Recovery(files, ROOT, source, no_stage).run(force=force)


def opened(files: MemoryFiles, **settings: Any) -> MessageStore:
    """Open the directory as the broker's next start does."""
    store = make_store(files, ManualClock(), **{**SETTINGS, **settings})
    store.open()
    return store


def contents(files: MemoryFiles) -> dict[tuple[str, int], list[bytes]]:
    """Return every message after a start that finds no damage; each is also found by its key."""
    store = make_store(files, ManualClock(), **SETTINGS)
    report = store.open()
    assert report.damaged == []
    found = everything(store)
    for bodies in found.values():
        for body in bodies[:: max(1, len(bodies) // 5)]:
            assert len(store.find_by_key("orders", f"k{int(body[:6])}", 2)) == 1
    store.close()
    return found
