"""Compares the whole store with a dictionary of lists, through kills, power losses, failing disks, deleted files."""

from __future__ import annotations

import errno
import os
import random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from pymq.clock import ManualClock
from pymq.errors import StoreUnavailableError
from pymq.model.draft import Draft
from pymq.model.javahash import tags_code
from pymq.model.record import decode_records
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.store import Placed
from tests.store.support import ROOT, die, everything, found_by_key, make_store, stage

TOPICS = st.sampled_from(["Alpha", "Beta", "%RETRY%" + "g" * 140])
QUEUES = st.integers(0, 2)
SIZES = st.integers(0, 300)


class StoreMachine(RuleBasedStateMachine):
    """``model`` holds, per queue, (body, key, physical end, tag, store time) of every acknowledged message."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.files = MemoryFiles(now_ms=self.clock.now_ms)
        self.model: dict[tuple[str, int], list[tuple[bytes, str, int, str, int]]] = {}
        self.number = 0
        self.store = make_store(self.files, self.clock)
        self.store.open()

    @rule(topic=TOPICS, queue_id=QUEUES, sizes=st.lists(SIZES, min_size=1, max_size=6), keyed=st.booleans())
    def send(self, topic: str, queue_id: int, sizes: list[int], keyed: bool) -> None:
        answered = [self._stage(topic, queue_id, size, keyed) for size in sizes]
        self.store.commit()
        self._answer(topic, queue_id, answered)

    @rule(topic=TOPICS, queue_id=QUEUES, counts=st.lists(st.integers(1, 3), min_size=1, max_size=3))
    def send_synchronously(self, topic: str, queue_id: int, counts: list[int]) -> None:
        """Some commits share an fsync; their messages stay invisible until then."""
        visible = self.store.max_offset(topic, queue_id)
        answered = []
        for count in counts:
            answered += [self._stage(topic, queue_id, 10, True) for _ in range(count)]
            self.store.commit(await_sync=True)
        assert self.store.max_offset(topic, queue_id) == visible
        self.store.confirm(self.store.sync(log_only=True))
        self._answer(topic, queue_id, answered)

    @rule(topic=TOPICS)
    def delete_topic(self, topic: str) -> None:
        self.store.delete_topics(topic)
        self.model = {key: queue for key, queue in self.model.items() if key[0] != topic}

    @rule(topic=TOPICS, queue_id=QUEUES, sizes=st.lists(SIZES, min_size=1, max_size=6))
    def send_batch(self, topic: str, queue_id: int, sizes: list[int]) -> None:
        drafts = []
        for size in sizes:
            self.number += 1
            body, properties = b"%06d." % self.number + b"." * size, b"KEYS\x01k%d\x02" % self.number
            drafts.append(Draft(body, properties, 1, b"\x7f\0\0\1\0\0\0\1", flag=self.number))
        placed = self.store.stage_many(topic, queue_id, drafts)
        self.store.commit()
        self._answer(topic, queue_id, [(d.body, f"k{d.flag}", p) for d, p in zip(drafts, placed, strict=True)])

    def _stage(self, topic: str, queue_id: int, size: int, keyed: bool) -> tuple[bytes, str, Placed]:
        self.number += 1
        body = b"%06d" % self.number + b"x" * size
        key = f"k{self.number}" if keyed else ""
        return body, key, stage(self.store, topic, queue_id, body, _tag(body), key and f"common-{topic[:5]} {key}")

    def _answer(self, topic: str, queue_id: int, messages: list[tuple[bytes, str, Placed]]) -> None:
        queue = self.model.setdefault((topic, queue_id), [])
        for body, key, placed in messages:
            assert placed.queue_offset == len(queue)
            queue.append((body, key, placed.physical_offset + placed.size_bytes, _tag(body), self.clock.now_ms()))

    @rule(topic=TOPICS, queue_id=QUEUES, sizes=st.lists(SIZES, min_size=1, max_size=30), written=st.integers(0, 2000))
    def send_on_a_full_disk(self, topic: str, queue_id: int, sizes: list[int], written: int) -> None:
        def fault(call: str, path: str) -> None:
            if call == "pwrite" and "/commitlog/" in path:
                node = self.files.nodes[path]
                # A real disk may take part of the bytes before it is full.
                node.write(max(self.store.physical_max_offset - int(path[-20:]), 0), b"\xaa" * min(written, 100))
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

        for size in sizes:
            self._stage(topic, queue_id, size, True)
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
        assert self.store.sync() == self.store.physical_max_offset

    @rule()
    def restart(self) -> None:
        self.store.close()
        self._reopen(clean=True)

    @rule()
    def kill(self) -> None:
        die(self.store)
        self._reopen(clean=False)

    @rule(lost=st.sets(st.sampled_from(["consumequeue", "index"]), min_size=1), clean=st.booleans())
    def restart_without(self, lost: set[str], clean: bool) -> None:
        self.store.close() if clean else die(self.store)
        for name in lost:
            self.files.remove_tree(f"{ROOT}/{name}")
        self._reopen(clean=clean)

    @rule(clean=st.booleans())
    def restart_without_one_queue(self, clean: bool) -> None:
        self.store.close() if clean else die(self.store)
        topics = self.files.listdir(f"{ROOT}/consumequeue")
        # Below a checkpoint only a clean start notices that one queue of many is gone.
        if topics and clean:
            self.files.remove_tree(f"{ROOT}/consumequeue/{topics[0]}")
        self._reopen(clean=clean)

    @rule(seed=st.integers(0, 1 << 32))
    def lose_power(self, seed: int) -> None:
        synced = self.store.synced_offset
        die(self.store)
        chance = random.Random(seed)
        self.files = self.files.after_power_loss(lambda *_: chance.random() < 0.5, lambda *_: chance.random() < 0.5)
        self._reopen(clean=False)
        end = self.store.physical_max_offset
        assert end >= synced
        self.model = {key: [m for m in queue if m[2] <= end] for key, queue in self.model.items()}

    def _reopen(self, *, clean: bool) -> None:
        self.store = make_store(self.files, self.clock)
        assert self.store.open().clean == clean

    @invariant()
    def same_as_the_model(self) -> None:
        assert everything(self.store) == {key: [m[0] for m in queue] for key, queue in self.model.items() if queue}

    @rule()
    def same_keys(self) -> None:
        for (topic, _), queue in self.model.items():
            for body, key, *_ in queue[-3:] + queue[:3]:
                if key:
                    assert body in found_by_key(self.store, topic, key)
            assert found_by_key(self.store, topic, "never-used") == []

    @rule()
    def same_by_tag(self) -> None:
        codes = frozenset((tags_code("A"),))
        for (topic, queue_id), queue in self.model.items():
            found: list[bytes] = []
            offset = 0
            while offset < len(queue):
                result = self.store.get(topic, queue_id, offset, 32, 1 << 20, codes)
                found += [m.body for m in decode_records(b"".join(result.chunks))]
                assert result.next_offset > offset
                offset = result.next_offset
            assert found == [m[0] for m in queue if m[3] == "A"]

    @rule(seconds=st.integers(0, 100))
    def same_by_time(self, seconds: int) -> None:
        for (topic, queue_id), queue in self.model.items():
            wanted_ms = queue[len(queue) * seconds // 101][4] - seconds % 2 if queue else 0
            first = next((offset for offset, m in enumerate(queue) if m[4] >= wanted_ms), len(queue))
            assert self.store.offset_by_time(topic, queue_id, wanted_ms) == first

    def teardown(self) -> None:
        self.same_keys()
        self.store.close()


def _tag(body: bytes) -> str:
    """Return the tag: single messages have tags in turn, messages of batches have none."""
    return "AB"[int(body[:6]) % 2] if body[6:7] != b"." else ""


TestStore = pytest.mark.slow(StoreMachine.TestCase)
TestStore.settings = settings(
    max_examples=100, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
