"""Drives a store through a workload, keeps the ledger, and records the disk's state around every call."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

from pymq.clock import ManualClock
from pymq.errors import StoreUnavailableError
from pymq.model.draft import Draft
from pymq.model.javahash import tags_code
from pymq.model.lite_topics import light_properties
from pymq.model.names import SCHEDULE_TOPIC
from pymq.model.record import encode_record
from pymq.model.sysflag import TRANSACTION_PREPARED
from pymq.store.disk.disk_snapshot import DiskSnapshot
from pymq.store.disk.json_table import JsonTable
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.replica.divergent_tail import truncate_log
from pymq.store.store import MessageStore
from tests.crash.ledger import Ledger, Promise, Record
from tests.crash.losses import random_loss
from tests.store.support import BORN, HOST, ROOT, die, drop_oldest, make_store

TABLE = f"{ROOT}/config/consumerOffset.json"
TAGS = "TagA"


class Moment(NamedTuple):
    """The disk before one call (after the previous one), and what the store had promised by then.

    ``power``: how often power was lost so far. Only the disk survives a power loss.
    """

    snapshot: DiskSnapshot
    promise: Promise
    call: str
    now_ms: int
    power: int


class Driver:
    """Drives a store on a simulated disk. Every message is unique."""

    def __init__(
        self,
        *,
        recording: bool = True,
        on_call: Callable[[str, str], None] | None = None,
        clock: ManualClock | None = None,
        **settings: Any,
    ) -> None:
        """``on_call(call, path)`` runs before each call and may raise OSError."""
        self.settings = settings
        self.clock = clock or ManualClock()
        self.ledger = Ledger()
        self.moments: list[Moment] = []
        self.refused: list[Record] = []
        self._on_call = on_call
        self._recording = recording
        self._number = 0
        self._power = 0
        self.origin: Driver | None = None  # the driver of the log that the store follows
        self._use(MemoryFiles(now_ms=self.clock.now_ms))
        self.store: MessageStore
        self.open()

    def _use(self, files: MemoryFiles) -> None:
        self.files = files
        files.fault = self._before

    def _before(self, call: str, path: str) -> None:
        if self._recording:
            self.record(f"{call} {path}")
        if self._on_call is not None:
            self._on_call(call, path)

    def record(self, call: str) -> None:
        """Record this moment unless it equals the last one."""
        snapshot, promise = self.files.snapshot(), self.ledger.promise()
        last = self.moments[-1] if self.moments else None
        if last is None or last.snapshot.root != snapshot.root or last.promise != promise:
            self.moments.append(Moment(snapshot, promise, call, self.clock.now_ms(), self._power))

    # -- life ---------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Start the store. What it finds is the truth from then on."""
        self.store = make_store(self.files, self.clock, **self.settings)
        self.table = JsonTable(self.files, TABLE)
        self.store.open()
        self.table.load()
        if self.origin is not None:
            self.follower = self.store.follow()
        self.ledger.settle(self.store.physical_max_offset, self.store.physical_min_offset)

    def close(self) -> None:
        self.store.close()
        self.ledger.acked_end = self.ledger.synced_end = self._whole(self.store.physical_max_offset)

    def restart(self) -> None:
        self.close()
        self.open()

    def kill(self) -> None:
        die(self.store)
        self.files.after_kill()
        self.open()

    def lose_power(self, seed: int) -> None:
        """Lose some of the unsynced data, then start again."""
        die(self.store)
        self.ledger.acked_end = self.ledger.synced_end
        loss = random_loss(random.Random(seed))
        self._power += 1
        self._use(MemoryFiles.restored(loss.of(self.files.snapshot()), now_ms=self.clock.now_ms))
        self.open()

    # -- messages -----------------------------------------------------------------------------------------------

    def send(self, topic: str, queue_id: int, sizes: tuple[int, ...], *, sync: bool = False) -> None:
        """Commit a message for each body size at once."""
        keyed = (self._number // 3) % 2 == 0

        def stage() -> None:
            for size in sizes:
                self._stage(topic, queue_id, size, keyed=keyed)

        self._put(stage, sync)

    def send_to(self, *queues: tuple[str, int], size: int = 60, sync: bool = False) -> None:
        """Commit a message for each queue at once."""

        def stage() -> None:
            for topic, queue_id in queues:
                self._stage(topic, queue_id, size, keyed=True)

        self._put(stage, sync)

    def send_lite(self, parent: str, *lites: str, size: int = 30, sync: bool = False) -> None:
        """Commit a message for each lite topic at once."""

        def stage() -> None:
            for number, lite in enumerate(lites):
                body, properties, keys = self._content(size, keyed=True)
                _, offset = self.store._lights.place(parent, lite)
                draft = Draft(body, properties, 1_000, BORN, tags_code(TAGS), lite_topic=lite)
                placed = self.store.stage(parent, number % 2, draft)
                properties += light_properties(parent, lite, offset)
                place = (parent, number % 2, placed.queue_offset, placed.physical_offset)
                self._note(*place, body, properties, keys)
                self.ledger.records[-1] = self.ledger.records[-1]._replace(lite=lite, light_offset=offset)

        self._put(stage, sync)

    def send_batch(self, topic: str, queue_id: int, sizes: tuple[int, ...], *, sync: bool = False) -> None:
        """Send one batch message."""
        parts = [self._content(size, keyed=True) for size in sizes]

        def stage() -> None:
            drafts = [Draft(body, properties, 1_000, BORN, tags_code(TAGS)) for body, properties, _ in parts]
            placed = self.store.stage_many(topic, queue_id, drafts)
            for place, (body, properties, keys) in zip(placed, parts, strict=True):
                self._note(topic, queue_id, place.queue_offset, place.physical_offset, body, properties, keys)

        self._put(stage, sync)

    def send_overlapping(self) -> None:
        """Group commit: three commits to one queue wait for two fsyncs, and each becomes visible with its own."""
        store, queue = self.store, ("Alpha", 0)
        visible = store.max_offset(*queue)
        ends = []
        for place in range(3):
            self._stage(*queue, 40, keyed=True)
            store.commit(await_sync=True)
            ends.append(store.physical_max_offset)
            if place == 1:
                synced = store.sync(log_only=True)
                assert store.max_offset(*queue) == visible, "a message shows before it is on the disk"
                store.confirm(ends[0])
                self.ledger.acked_end, self.ledger.synced_end = ends[0], synced
        store.confirm(synced)
        self.ledger.acked_end = synced
        assert store.max_offset(*queue) == visible + 2
        synced = store.sync(log_only=True)
        store.confirm(synced)
        self.ledger.acked_end = self.ledger.synced_end = synced
        assert store.max_offset(*queue) == visible + 3

    def send_half(self) -> None:
        """Store a half message: it is in the log and the index, but in no queue."""
        self._put(lambda: self._stage("Alpha", 0, 40, keyed=True, sys_flag=TRANSACTION_PREPARED), False)

    def send_delayed(self, level: int) -> None:
        """Store a delayed message in its level's queue, whose units hold due times."""
        body, properties, keys = self._content(50, keyed=True)
        properties += b"DELAY\x01%d\x02" % level
        due_ms = self.store.settings.schedule_deliver_ms(level, self.clock.now_ms())

        def stage() -> None:
            placed = self.store.stage(SCHEDULE_TOPIC, level - 1, Draft(body, properties, 1_000, BORN, due_ms))
            place = (SCHEDULE_TOPIC, level - 1, placed.queue_offset, placed.physical_offset)
            self._note(*place, body, properties, keys)

        self._put(stage, False)

    def send_wide(self, size: int) -> None:
        """Store a message whose properties span disk pages; its body, which has a checksum, is short."""
        body, properties, keys = self._content(10, keyed=True)
        properties += b"WIDE\x01" + b"w" * size + b"\x02"

        def stage() -> None:
            placed = self.store.stage("Alpha", 0, Draft(body, properties, 1_000, BORN, tags_code(TAGS)))
            self._note("Alpha", 0, placed.queue_offset, placed.physical_offset, body, properties, keys)

        self._put(stage, False)

    def _content(self, size: int, *, keyed: bool) -> tuple[bytes, bytes, tuple[str, ...]]:
        self._number += 1
        number = self._number
        body = (b"%d|" % number + bytes([number % 251 + 1]) * size)[: max(size, len(b"%d|" % number))]
        keys: tuple[str, ...] = (f"k{number}",) if keyed else ()
        properties = b"TAGS\x01TagA\x02"
        if keyed:
            properties += b"KEYS\x01k%d all\x02UNIQ_KEY\x01U%d\x02" % (number, number)
            keys = (f"k{number}", f"U{number}")
        return body, properties, keys

    def _stage(self, topic: str, queue_id: int, size: int, *, keyed: bool, sys_flag: int = 0) -> None:
        body, properties, keys = self._content(size, keyed=keyed)
        placed = self.store.stage(
            topic, queue_id, Draft(body, properties, 1_000, BORN, tags_code(TAGS), sys_flag=sys_flag)
        )
        self._note(topic, queue_id, placed.queue_offset, placed.physical_offset, body, properties, keys, sys_flag)

    def _note(
        self, topic: str, queue_id: int, queue_offset: int, start: int, body: bytes, properties: bytes,
        keys: tuple[str, ...], sys_flag: int = 0,
    ) -> None:  # fmt: skip
        raw = encode_record(
            topic=topic.encode(), queue_id=queue_id, queue_offset=queue_offset, physical_offset=start, body=body,
            properties=properties, flag=0, sys_flag=sys_flag, born_timestamp_ms=1_000, born_host=BORN,
            store_timestamp_ms=self.clock.now_ms(), store_host=HOST,
        )  # fmt: skip
        self.ledger.records.append(Record(topic, queue_id, queue_offset, start, raw, keys, not sys_flag))

    def _put(self, stage: Callable[[], None], sync: bool) -> None:
        """Stage, commit and acknowledge. Drops from the ledger what the store refuses, and passes the error on."""
        before = len(self.ledger.records)
        try:
            stage()
            self.store.commit(await_sync=sync)
        except StoreUnavailableError:
            self.store._appender.drop_staged()
            self.refused += self.ledger.records[before:]
            self.ledger.records = self.ledger.records[:before]
            raise
        if not sync:
            self.ledger.acked_end = self.store.physical_max_offset
            return
        end = self.store.sync(log_only=True)
        self.store.confirm(end)
        self.ledger.acked_end = self.ledger.synced_end = end

    # -- following another log ----------------------------------------------------------------------------------

    def follow(self) -> Driver:
        """Let the store follow another one's log from now on. Returns the other store's driver."""
        self.origin = Driver(recording=False, clock=self.clock, **self.settings)
        self.follower = self.store.follow()
        return self.origin

    def grow(self, size: int, piece_size: int = 1 << 20, *, dispatch: bool = True) -> None:
        """Append the next ``size`` bytes of the origin's log."""
        assert self.origin is not None
        store, end = self.origin.store, min(self.follower.end + size, self.origin.store.physical_max_offset)
        while self.follower.end < end:
            at = self.follower.end
            piece = store.read_log(at, min(piece_size, end - at))
            self.ledger.records = [r for r in self.origin.ledger.records if r.start < at + len(piece)]
            self.follower.append(at, piece)
            self.ledger.acked_end = self._whole(self.follower.end)
            if dispatch:
                self.follower.dispatch()

    def lead(self) -> None:
        """Stop following: the store is a master from now on."""
        assert self.origin is not None
        self._number = self.origin._number
        self.origin = None
        self.restart()

    def truncate(self, number: int) -> None:
        """Truncate the stopped store's log at the start of a record (-1: the newest one)."""
        self.close()
        end = self.ledger.records[number].start
        self.ledger.acked_end = self.ledger.synced_end = end
        truncate_log(self.files, ROOT, self.store.settings, end, self.clock)
        self.open()

    def _whole(self, end: int) -> int:
        """Return the end that a start must find for a log that ends there: an incomplete record is dropped."""
        if self.origin is None:
            return end
        return max((record.end for record in self.ledger.records if record.end <= end), default=0)

    # -- the rest -----------------------------------------------------------------------------------------------

    def tick(self, advance_ms: int = 1_000) -> None:
        self.clock.advance(advance_ms)
        self.store.tick()

    def sync(self) -> None:
        self.ledger.synced_end = self._whole(self.store.sync())

    def checkpoint(self) -> None:
        """Write queues and index to their files, sync all, move the checkpoint."""
        self.tick(20_000)
        self.sync()

    def delete_topic(self, topic: str) -> None:
        self.ledger.going = (topic,)
        end = self.store.physical_max_offset
        count = self.store.delete_topics(topic)
        self.ledger.going = ()
        if count:
            self.ledger.gone[topic] = end
            self.ledger.synced_end = end

    def remove_deleted(self, count_max: int) -> None:
        """Remove at most so many of the queues that were deleted."""
        self.store._queues.removed.work(count_max)

    def expire(self) -> None:
        """Delete the oldest segment, as retention does."""
        segments = self.store._log.segments
        if len(segments) > 1:
            self.ledger.starts = (segments[0].start, segments[1].start)
        self.ledger.starts = (drop_oldest(self.store),)

    def save_table(self) -> None:
        """Save a new version of a config table."""
        version = len(self.ledger.tables)
        table = {"offsetTable": {f"T{i}@g": {"0": version * 100 + i} for i in range(version % 4 * 8 + 1)}}
        self.ledger.tables = [*self.ledger.tables, table]
        self.table.save(table)
        self.ledger.table_low = version
