"""Starts a store on what a crash left, and compares what it serves with the promise (invariants I1-I5, I7)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

from pymq.clock import ManualClock
from pymq.errors import PymqError
from pymq.model.draft import Draft
from pymq.model.javahash import tags_code
from pymq.model.lite_topics import LIGHT_QUEUE_PREFIX, light_queue_name, split_light_queue
from pymq.model.record import encode_record
from pymq.store.disk.disk_snapshot import Image
from pymq.store.disk.json_table import JsonTable
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.queue.removed_queues import DELETED_QUEUES_DIRECTORY
from pymq.store.store import MessageStore
from tests.crash.driver import TABLE
from tests.crash.ledger import Promise, Queue, Record, expected_queues
from tests.store.light.lights import entries_of
from tests.store.support import BORN, HOST, ROOT, die, make_store

NEW_QUEUE = ("Fresh", 0)


class BrokenPromiseError(AssertionError):
    """The store lost, changed or invented something."""


class Served(NamedTuple):
    """The content after a start on an image: the log's bounds, and each queue's bounds and records back to back."""

    start: int
    end: int
    queues: dict[Queue, tuple[int, int, bytes]]
    table: dict[str, Any]


def read_queue(store: MessageStore, topic: str, queue_id: int) -> bytes:
    """Return every record of a queue, as a client would pull them."""
    chunks: list[memoryview] = []
    offset, end = store.min_offset(topic, queue_id), store.max_offset(topic, queue_id)
    while offset < end:
        result = store.get(topic, queue_id, offset, 32, 1 << 20)
        if result.next_offset <= offset:
            raise BrokenPromiseError(f"a pull of {topic} {queue_id} at {offset} of {end} gets stuck: {result.status}")
        chunks += result.chunks
        offset = result.next_offset
    return b"".join(chunks)


def served_by(store: MessageStore) -> Served:
    queues = {
        (topic, queue_id): (
            store.min_offset(topic, queue_id), store.max_offset(topic, queue_id), read_queue(store, topic, queue_id)
        )
        for topic, queue_id in store.queues()
    }  # fmt: skip
    queues |= _light_queues(store)
    return Served(store.physical_min_offset, store.physical_max_offset, queues, {})


def _light_queues(store: MessageStore) -> dict[Queue, tuple[int, int, bytes]]:
    """Return the light queues that have messages, as their entries lead to them."""
    queues = {}
    for parent, lites in store._lights._numbers.items():
        for lite in lites:
            entries = entries_of(store, parent, lite)
            if entries:
                records = b"".join([bytes(store.record_at(entry.physical_offset)) for entry in entries])
                ends = store.lights.ends(parent, lite)
                queues[light_queue_name(parent, lite), 0] = (ends.min_offset, ends.max_offset, records)
    return queues


class Checker:
    """Starts stores of one workload's settings. ``start_count`` counts them."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = settings
        self.start_count = 0

    def start(self, image: Image, now_ms: int) -> tuple[MessageStore, MemoryFiles]:
        """Open a store on a copy of the image. Raises BrokenPromiseError when it doesn't start."""
        self.start_count += 1
        files = MemoryFiles.restored(image)
        store = make_store(files, ManualClock(now_ms), **self._settings)
        try:
            report = store.open()
        except (PymqError, OSError) as error:
            raise BrokenPromiseError(f"the store doesn't start: {error!r}") from error
        if report.damaged:
            raise BrokenPromiseError(f"a crash is no damage: {report.damaged} {report.notes}")
        if report.lost:
            raise BrokenPromiseError(f"a crash loses no segment: {report.lost}")
        return store, files

    def probe(self, image: Image, promise: Promise, now_ms: int, number: int) -> Served:
        """Return what a start serves. Looks up keys and, depending on ``number``, sends more and crashes again."""
        store, files = self.start(image, now_ms)
        try:
            self._finish_deletions(store, files)
            served = served_by(store)._replace(table=JsonTable(files, TABLE).load())
            self._check_log(store, promise, served)
            self._check_keys(store, promise, served, number)
            if number % 3 == 0:
                self._go_on(store, files, served, now_ms, by_power_loss=number % 2 == 0)
        except PymqError as error:
            raise BrokenPromiseError(f"the store refuses what it holds: {error!r}") from error
        finally:
            die(store)
        return served

    def _finish_deletions(self, store: MessageStore, files: MemoryFiles) -> None:
        """Remove what deletions left. None of it may be a served queue's, and nothing may stay."""
        while store.has_waste:
            store.delete_segment(None)
        left = files.listdir(f"{ROOT}/{DELETED_QUEUES_DIRECTORY}")
        if left:
            raise BrokenPromiseError(f"files of deleted queues stay: {left}")

    def _check_log(self, store: MessageStore, promise: Promise, served: Served) -> None:
        """Check the newest records, including those without a queue unit."""
        for record in promise.records[max(promise.count - 4, 0) : promise.count]:
            if served.start <= record.start and record.end <= served.end:
                found = bytes(store.record_at(record.start))
                if found != record.raw:
                    raise BrokenPromiseError(f"the log holds other bytes at {record.start}: {found!r}")

    def _check_keys(self, store: MessageStore, promise: Promise, served: Served, number: int) -> None:
        """Check that keys lead to their records, and keys of lost records to nothing."""
        known = promise.records[: promise.count]
        if store._index is None:
            return
        keyed = [record for record in known if record.keys and served.start <= record.start]
        kept = [record for record in keyed if record.end <= served.end]
        sample = (
            kept if number % 10 == 0 else {id(r): r for r in (*kept[:1], *kept[-2:], *kept[number % 7 :][:1])}.values()
        )
        for record in sample:
            for key in record.keys:
                found = [bytes(raw) for raw in store.find_by_key(record.topic, key, 64)]
                if found != [record.raw]:
                    raise BrokenPromiseError(f"key {key} of the record at {record.start} finds {found}")
        for record in keyed[len(kept) :][:1]:
            if store.find_by_key(record.topic, record.keys[0], 64):
                raise BrokenPromiseError(f"key {record.keys[0]} of a lost record finds something")
        if store._index._damage_count:
            raise BrokenPromiseError("the index is damaged after a crash: look-ups have it made again")

    def _go_on(
        self, store: MessageStore, files: MemoryFiles, served: Served, now_ms: int, *, by_power_loss: bool
    ) -> None:
        """Check that the store takes more messages, and that they and the old ones survive the next crash."""
        added: dict[Queue, Record] = {}
        lights = {queue: held for queue, held in served.queues.items() if queue[0].startswith(LIGHT_QUEUE_PREFIX)}
        for queue in (*(served.queues.keys() - lights.keys()), NEW_QUEUE):
            added[queue] = self._send(store, *queue, now_ms)
            expected = served.queues[queue][1] if queue in served.queues else 0
            if added[queue].queue_offset != expected:
                raise BrokenPromiseError(f"{queue} goes on at {added[queue].queue_offset} instead of {expected}")
        if by_power_loss:
            store.sync()
        die(store)
        snapshot = files.snapshot()
        image = snapshot.after_power_loss(_no, _no, _no) if by_power_loss else snapshot.image()
        again, _ = self.start(image, now_ms + 1)
        after = served_by(again)
        die(again)
        wanted = {
            queue: (low, high + 1, raw + added[queue].raw)
            for queue, (low, high, raw) in served.queues.items()
            if queue not in lights
        }
        wanted |= lights
        wanted[NEW_QUEUE] = 0, 1, added[NEW_QUEUE].raw
        if after.queues != wanted:
            raise BrokenPromiseError(f"after another crash: {_difference(wanted, after.queues)}")

    def _send(self, store: MessageStore, topic: str, queue_id: int, now_ms: int) -> Record:
        body, properties = b"more", b"KEYS\x01more\x02"
        placed = store.stage(topic, queue_id, Draft(body, properties, 1, BORN, tags_code("")))
        store.commit()
        raw = encode_record(
            topic=topic.encode(), queue_id=queue_id, queue_offset=placed.queue_offset, body=body,
            physical_offset=placed.physical_offset, properties=properties, flag=0, sys_flag=0, born_timestamp_ms=1,
            born_host=BORN, store_timestamp_ms=now_ms, store_host=HOST,
        )  # fmt: skip
        return Record(topic, queue_id, placed.queue_offset, placed.physical_offset, raw, ())


def _no(*_: object) -> bool:
    return False


def verify(served: Served, promise: Promise, required_end: int) -> None:
    """Check that no promised record is missing, none is there that was not sent, and queues agree with the log."""
    if served.end < required_end:
        raise BrokenPromiseError(f"the log ends at {served.end}, records up to {required_end} were promised")
    if served.start not in promise.starts:
        raise BrokenPromiseError(f"the log begins at {served.start} instead of {promise.starts}")
    queues = expected_queues(promise, served.end)
    for queue in queues.keys() | served.queues.keys():
        records = queues.get(queue, [])
        low, high, raw = served.queues.get(queue, (0, 0, b""))
        topic, light = queue[0], split_light_queue(queue[0])
        if light is not None:
            # Lite topics are forgotten with their messages.
            topic = light[0]
            records = [record._replace(queue_offset=record.light_offset) for record in records]
            records = [record for record in records if record.start >= served.start]
            if any(after.queue_offset != before.queue_offset + 1 for before, after in pairwise(records)):
                raise BrokenPromiseError(f"{queue[0]} lacks offsets: {[record.queue_offset for record in records]}")
        if topic in promise.going:
            # Its files are deleted one by one, and a power loss may keep any of them.
            records = [record for record in records if low <= record.queue_offset < high]
            if low == high and not records:  # gone, or kept with its oldest messages expired
                continue
        kept = [record for record in records if record.start >= served.start]
        wanted_high = records[-1].queue_offset + 1 if records else 0
        wanted_low = kept[0].queue_offset if kept else wanted_high
        if (low, high) != (wanted_low, wanted_high) or raw != b"".join(record.raw for record in kept):
            wanted = {queue: (wanted_low, wanted_high, b"".join(record.raw for record in kept))}
            raise BrokenPromiseError(_difference(wanted, {queue: (low, high, raw)}))
    versions = promise.tables[promise.table_low : promise.table_high + 1]
    if served.table not in versions:
        raise BrokenPromiseError(f"the table holds {served.table}, none of the versions from {promise.table_low} on")


def _difference(wanted: dict[Queue, tuple[int, int, bytes]], found: dict[Queue, tuple[int, int, bytes]]) -> str:
    for queue in sorted(wanted.keys() | found.keys()):
        expected, real = wanted.get(queue, (0, 0, b"")), found.get(queue, (0, 0, b""))
        if expected != real:
            at = next(
                (i for i, (a, b) in enumerate(zip(expected[2], real[2], strict=False)) if a != b),
                min(len(expected[2]), len(real[2])),
            )
            return (
                f"{queue} serves offsets {real[0]} to {real[1]} ({len(real[2])} bytes) instead of "
                f"{expected[0]} to {expected[1]} ({len(expected[2])} bytes), first difference at byte {at}"
            )
    return "no difference"
