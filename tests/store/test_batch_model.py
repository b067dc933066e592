"""Compares batch queues with lists of messages, through kills, power losses, full disks and damaged files."""

from __future__ import annotations

import errno
import os
import random
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from pymq.clock import ManualClock
from pymq.errors import StoreUnavailableError
from pymq.model.draft import Draft
from pymq.model.inner_batch import unwrapped
from pymq.model.javahash import tags_code
from pymq.model.record import decode_records, encode_batch_entry
from pymq.store.disk.fs import Files, make_directory
from pymq.store.disk.json_table import JsonTable
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.store import GetStatus, MessageStore, Placed
from tests.store.support import ROOT, die, drop_oldest, make_store, stage

BATCHES, PLAIN = "Batches", "Plain"
QUEUES = st.integers(0, 1)
COUNTS = st.integers(1, 9)


class Message(NamedTuple):
    """One acknowledged message: its record's first offset, end in the log and tag, and when it was stored."""

    body: bytes
    base: int
    end: int
    tag: str
    store_ms: int


def write_topics(files: Files, root: str = ROOT) -> None:
    """Save the topic table as a broker does."""
    make_directory(files, root)
    make_directory(files, f"{root}/config")
    topics = {BATCHES: {"topicName": BATCHES, "attributes": {"queue.type": "BatchCQ"}}, PLAIN: {"topicName": PLAIN}}
    JsonTable(files, f"{root}/config/topics.json").save({"topicConfigTable": topics})


def stage_batch(store: MessageStore, topic: str, queue_id: int, bodies: list[bytes], tag: str = "") -> Placed:
    body = b"".join(encode_batch_entry(each, b"UNIQ_KEY\x01%b\x02" % each) for each in bodies)
    properties = b"UNIQ_KEY\x01batch%b\x02" % bodies[0] + (b"TAGS\x01%b\x02" % tag.encode() if tag else b"")
    return store.stage_inner(
        topic, queue_id, Draft(body, properties, 1, b"\x7f\0\0\1\0\0\0\1"), message_count=len(bodies)
    )


class BatchMachine(RuleBasedStateMachine):
    """``model`` holds the messages of each queue by offset; None for those that retention deleted."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.files = MemoryFiles(now_ms=self.clock.now_ms)
        self.model: dict[int, list[Message]] = {0: [], 1: []}
        self.first = {0: 0, 1: 0}
        self.number = 0
        write_topics(self.files)
        self.store = self._make()
        self.store.open()

    def _make(self) -> MessageStore:
        return make_store(self.files, self.clock, batch_queue_file_size_bytes=46 * 7)

    def _bodies(self, count: int) -> list[bytes]:
        self.number += count
        return [b"%06d" % number for number in range(self.number - count, self.number)]

    def _stage(self, queue_id: int, count: int) -> list[Message]:
        """Stage a single message (0), or a batch."""
        tag = "AB"[self.number % 2] if count % 3 == 0 else ""
        bodies = self._bodies(max(count, 1))
        if count:
            placed = stage_batch(self.store, BATCHES, queue_id, bodies, tag)
        else:
            placed = stage(self.store, BATCHES, queue_id, bodies[0], tag)
        end = placed.physical_offset + placed.size_bytes
        return [Message(body, placed.queue_offset, end, tag, self.clock.now_ms()) for body in bodies]

    @rule(queue_id=QUEUES, counts=st.lists(st.integers(0, 9), min_size=1, max_size=8), waits=st.booleans())
    def send(self, queue_id: int, counts: list[int], waits: bool) -> None:
        stage(self.store, PLAIN, 0, b"between")
        for count in counts:
            messages = self._stage(queue_id, count)
            assert messages[0].base == len(self.model[queue_id])
            self.model[queue_id] += messages
        if waits:
            visible = self.store.max_offset(BATCHES, queue_id)
            self.store.commit(await_sync=True)
            assert self.store.max_offset(BATCHES, queue_id) == visible
            self.store.confirm(self.store.sync(log_only=True))
        else:
            self.store.commit()

    @rule(queue_id=QUEUES, count=COUNTS)
    def fail_to_send(self, queue_id: int, count: int) -> None:
        def fault(call: str, path: str) -> None:
            if call == "pwrite" and "/commitlog/" in path:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

        self._stage(queue_id, count)
        self.files.fault = fault
        with pytest.raises(StoreUnavailableError, match="commitlog"):
            self.store.commit()
        self.files.fault = None

    @rule(advance_ms=st.integers(0, 20_000))
    def tick(self, advance_ms: int) -> None:
        self.clock.advance(advance_ms)
        self.store.tick()

    @rule()
    def sync(self) -> None:
        self.store.sync()

    @rule()
    def checkpoint(self) -> None:
        self.clock.advance(5_000)
        self.store.tick()
        self.store.checkpoint()

    @rule(clean=st.booleans())
    def restart(self, clean: bool) -> None:
        self.store.close() if clean else die(self.store)
        self._reopen()

    @rule(clean=st.booleans(), names=st.sets(st.sampled_from(["batchconsumequeue", "digests", "checkpoint"])))
    def restart_without(self, clean: bool, names: set[str]) -> None:
        """The log alone says where the queues end: offsets of deleted messages are lost with the files."""
        if any(self.first.values()):
            return
        self.store.close() if clean else die(self.store)
        for name in names:
            path = f"{ROOT}/{name}"
            if self.files.is_dir(path):
                self.files.remove_tree(path)
            elif self.files.exists(path):
                self.files.remove(path)
        self._reopen()

    @rule(clean=st.booleans(), seed=st.integers(0, 1 << 32))
    def restart_with_a_damaged_file(self, clean: bool, seed: int) -> None:
        self.store.close() if clean else die(self.store)
        chance = random.Random(seed)
        paths = [path for path in sorted(self.files.nodes) if "/batchconsumequeue/" in path]
        if paths:
            file = self.files.open(chance.choice(paths))
            at = chance.randrange(max(file.size(), 1))
            file.pwrite(at, bytes((chance.randrange(256),)))
            file.close()
        self._reopen()

    @rule(seed=st.integers(0, 1 << 32))
    def lose_power(self, seed: int) -> None:
        synced = self.store.synced_offset
        die(self.store)
        chance = random.Random(seed)
        self.files = self.files.after_power_loss(lambda *_: chance.random() < 0.5, lambda *_: chance.random() < 0.5)
        self._reopen()
        end = self.store.physical_max_offset
        assert end >= synced
        self.model = {key: [m for m in queue if m.end <= end] for key, queue in self.model.items()}

    @rule()
    def delete_the_oldest_segment(self) -> None:
        if self.store.physical_max_offset - self.store.physical_min_offset < 2 * 4096:
            return
        self.checkpoint()
        begin = drop_oldest(self.store)
        for queue_id, queue in self.model.items():
            kept = [m.base for m in queue if m.end > begin]
            self.first[queue_id] = max(self.first[queue_id], min(kept, default=len(queue)))

    def _reopen(self) -> None:
        self.store = self._make()
        self.store.open()

    @invariant()
    def same_as_the_model(self) -> None:
        for queue_id, queue in self.model.items():
            if queue:
                assert self.store.max_offset(BATCHES, queue_id) == len(queue)
                assert self.store.min_offset(BATCHES, queue_id) == self.first[queue_id]
            offset = self.first[queue_id]
            while offset < len(queue):
                offset = self._same_from(queue_id, queue, offset, 16, None)

    @rule(seed=st.integers(0, 1 << 32), count=st.integers(1, 40))
    def same_from_any_offset(self, seed: int, count: int) -> None:
        chance = random.Random(seed)
        for queue_id, queue in self.model.items():
            if self.first[queue_id] < len(queue):
                self._same_from(queue_id, queue, chance.randrange(self.first[queue_id], len(queue)), count, None)

    @rule()
    def same_by_tag(self) -> None:
        for queue_id, queue in self.model.items():
            offset = self.first[queue_id]
            while offset < len(queue):
                offset = self._same_from(queue_id, queue, offset, 12, "A")

    def _same_from(self, queue_id: int, queue: list[Message], offset: int, count: int, tag: str | None) -> int:
        codes = None if tag is None else frozenset((tags_code(tag),))
        result = self.store.get(BATCHES, queue_id, offset, count, 1 << 20, codes)
        records = decode_records(b"".join(result.chunks))
        found = list(unwrapped(records))
        assert result.count == len(found)
        assert len(records) == 1 or len(found) <= count
        assert result.next_offset > offset
        begin = queue[offset].base
        wanted = [m.body for m in queue[begin : result.next_offset] if tag is None or m.tag == tag]
        assert [m.body for m in found] == wanted
        assert [m.queue_offset for m in found] == [int(queue.index(m)) for m in queue if m.body in set(wanted)]
        assert tag is not None or result.status == GetStatus.FOUND
        return result.next_offset

    @rule(share=st.integers(0, 100))
    def same_by_time(self, share: int) -> None:
        for queue_id, queue in self.model.items():
            kept = queue[self.first[queue_id] :]
            if kept:
                wanted_ms = kept[len(kept) * share // 101].store_ms
                first = next(m.base for m in kept if m.store_ms >= wanted_ms)
                assert self.store.offset_by_time(BATCHES, queue_id, wanted_ms) == first

    def teardown(self) -> None:
        self.store.close()


TestBatchQueues = pytest.mark.slow(BatchMachine.TestCase)
TestBatchQueues.settings = settings(
    max_examples=int(os.environ.get("PYMQ_BATCH_EXAMPLES", "25")),
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
