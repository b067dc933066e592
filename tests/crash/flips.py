"""Flips one bit anywhere in a store of 100 messages: every message is either served correctly or refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from pymq.clock import ManualClock
from pymq.errors import CorruptRecordError, PymqError
from pymq.model.javahash import tags_code
from pymq.store.disk.disk_snapshot import Image
from pymq.store.disk.json_table import JsonTable
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.queue.sums_file import SUMS_FILE
from pymq.store.store import GetStatus, MessageStore
from tests.store.support import ROOT, die, make_store, put

MESSAGE_COUNT = 100
ALL = range(MESSAGE_COUNT)
SETTINGS: dict[str, Any] = {
    "segment_size_bytes": 1 << 16,
    "queue_file_size_bytes": 600,
    "index_slot_count": 30,
    "index_entry_count": 120,
}
TAGS = frozenset((tags_code("A"),))
TABLE = f"{ROOT}/config/topics.json"
_DONE = (GetStatus.OFFSET_OVERFLOW_ONE, GetStatus.OFFSET_OVERFLOW_BADLY, GetStatus.NO_MESSAGE_IN_QUEUE)

Place = tuple[int, int]  # queue id, queue offset


class Flip(NamedTuple):
    """One bit of one file."""

    path: str
    at: int
    bit: int
    clean: bool  # the broker was stopped, not killed


class Seen(NamedTuple):
    """The result of reading the whole store."""

    records: dict[Place, bytes]
    refused: list[Place]
    tagged: int  # messages that a filter for their tag lets through
    found: int  # keys that lead to their message
    ends: tuple[int, ...]


class FlipSuite:
    """A store whose every byte is on the disk, and what it serves when no bit is flipped."""

    def __init__(self, *, with_sums: bool = True) -> None:
        """``with_sums``: the checksums of queue units are there."""
        clock = ManualClock()
        files = MemoryFiles(now_ms=clock.now_ms)
        store = make_store(files, clock, **SETTINGS)
        store.open()
        for i in range(MESSAGE_COUNT):
            put(store, "T", i % 2, b"%03d" % i, tags="A", keys=f"k{i}")
        JsonTable(files, TABLE).save({"topicConfigTable": {"T": {"readQueueNums": 2, "topicName": "T"}}})
        JsonTable(files, TABLE).load()
        self.end = store.physical_max_offset
        clock.advance(60_000)
        store.tick()
        store.sync()
        self.images = {False: files.snapshot().image()}
        store.close()
        self.images[True] = files.snapshot().image()
        if not with_sums:
            for image in self.images.values():
                del image.files[f"{ROOT}/digests/{SUMS_FILE}"]
        self.original = {clean: self.read(self.images[clean], ALL) for clean in (False, True)}
        assert len(self.original[True].records) == len(self.original[False].records) == MESSAGE_COUNT

    def positions(self, part: str, clean: bool = True) -> list[tuple[str, int]]:
        """Return the position of every byte of the files below a directory; of the log only the written ones."""
        files = self.images[clean].files
        return [
            (path, at)
            for path in sorted(files)
            if path.startswith(f"{ROOT}/{part}")
            for at in range(self.end if part == "commitlog" else len(files[path]))
        ]

    def flipped(self, flip: Flip) -> Image:
        image = self.images[flip.clean]
        content = bytearray(image.files[flip.path])
        content[flip.at] ^= 1 << flip.bit
        return image._replace(files={**image.files, flip.path: bytes(content)})

    def read(self, image: Image, keys: Sequence[int]) -> Seen:
        """Start the store and read everything. Skips refused messages as their errors say.

        ``keys``: numbers of the messages that are also looked up by key.
        """
        store = make_store(MemoryFiles.restored(image), ManualClock(1_800_000_000_000), **SETTINGS)
        store.open()
        try:
            return self._read(store, keys)
        finally:
            die(store)

    def _read(self, store: MessageStore, keys: Sequence[int]) -> Seen:
        records: dict[Place, bytes] = {}
        refused: list[Place] = []
        tagged = 0
        for queue_id in (0, 1):
            offset = store.min_offset("T", queue_id)
            while offset < store.max_offset("T", queue_id):
                try:
                    result = store.get("T", queue_id, offset, 32, 1 << 20)
                except CorruptRecordError:
                    refused.append((queue_id, offset))
                    offset += 1
                    continue
                for record in _records(b"".join(result.chunks)):
                    records[queue_id, int.from_bytes(record[20:28], "big")] = record
                assert result.next_offset > offset, f"stuck at {queue_id} {offset}: {result.status}"
                offset = result.next_offset
            tagged += _tagged(store, queue_id)
        found = 0
        for i in keys:
            for raw in _found(store, f"k{i}"):
                assert b"%03d" % i in raw and b"\x01k%d\x02" % i in raw, f"key k{i} finds another message"
                found += 1
        ends = (store.physical_max_offset, store.max_offset("T", 0), store.max_offset("T", 1))
        return Seen(records, refused, tagged, found, ends)

    def check(self, flip: Flip, keys: Sequence[int] = ALL) -> Seen:
        """Check that there is no wrong content, no silent gap, no damaged neighbor and no offset used twice."""
        seen, original = self.read(self.flipped(flip), keys), self.original[flip.clean]
        assert seen.ends == original.ends
        assert seen.records.items() <= original.records.items(), "wrong content is served"
        missing = original.records.keys() - seen.records.keys()
        assert missing == set(seen.refused), f"silently missing: {sorted(missing - set(seen.refused))}"
        assert len(missing) <= 1, f"one flip costs {sorted(missing)}"
        return seen


def _records(joined: bytes) -> list[bytes]:
    found, at = [], 0
    while at < len(joined):
        size = int.from_bytes(joined[at : at + 4], "big")
        assert 0 < size <= len(joined) - at, "an answer holds something that is no record"
        found.append(joined[at : at + size])
        at += size
    return found


def _tagged(store: MessageStore, queue_id: int) -> int:
    count, offset = 0, store.min_offset("T", queue_id)
    while True:
        try:
            result = store.get("T", queue_id, offset, 32, 1 << 20, TAGS)
        except CorruptRecordError:
            offset += 1
            continue
        if result.status in _DONE:
            return count
        count += result.count
        offset = result.next_offset


def _found(store: MessageStore, key: str) -> list[bytes]:
    try:
        return [bytes(raw) for raw in store.find_by_key("T", key, 8)]
    except PymqError:
        return []
