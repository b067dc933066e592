"""Batch queues and crashes: a kill or a power loss before any call leaves every message at its offset.

What was on the disk is there, offsets have no gaps inside, and the next message gets the offset behind the last one.
Planted bugs show that the check finds what it looks for.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from pymq.clock import ManualClock
from pymq.model.inner_batch import unwrapped
from pymq.model.record import decode_records
from pymq.store.disk.disk_snapshot import DiskSnapshot
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.dispatch.queue_dispatcher import QueueDispatcher
from pymq.store.queue import batch_queue
from pymq.store.queue.batch_queue import BatchQueue
from pymq.store.store import MessageStore
from tests.crash.losses import DROP_ALL, random_loss
from tests.store.support import drop_oldest, make_store, stage
from tests.store.test_batch_model import BATCHES, PLAIN, stage_batch, write_topics

SETTINGS: dict[str, Any] = {"batch_queue_file_size_bytes": 46 * 5}
CRASHES_MAX = int(os.environ.get("PYMQ_BATCH_CRASHES", "25"))  # of one workload, evenly spread
Model = dict[int, list[tuple[bytes, int]]]  # by queue id: body, and where the record ends


class _Moment(NamedTuple):
    """The disk before one call; the model, and the log's end in its file and on the disk by then."""

    snapshot: DiskSnapshot
    model: Model
    written: int
    synced: int
    first: dict[int, int]


class _Run:
    def __init__(self, seed: int) -> None:
        self.moments: list[_Moment] = []
        self.files = MemoryFiles()
        self.clock = ManualClock()
        write_topics(self.files)
        self.store = make_store(self.files, self.clock, **SETTINGS)
        self.store.open()
        self.model: Model = {0: [], 1: []}
        self.first = {0: 0, 1: 0}
        self._chance = random.Random(seed)
        self.files.fault = self._before
        for step in range(30):
            self._send()
            self.clock.advance(700)
            self.store.tick()
            if step % 4 == 3:
                self.store.sync()
            if step % 7 == 6:
                self.store.checkpoint()
            if step in (17, 26):
                self._expire()
        self.files.fault = None

    def _before(self, call: str, path: str) -> None:
        end = self.store.physical_max_offset
        model = {queue_id: list(queue) for queue_id, queue in self.model.items()}
        self.moments.append(_Moment(self.files.snapshot(), model, end, self.store.synced_offset, dict(self.first)))

    def _send(self) -> None:
        chance = self._chance
        sent: list[tuple[int, list[bytes], int]] = []
        for _ in range(chance.randrange(1, 4)):
            queue_id, count = chance.randrange(2), chance.choice((0, 1, 3, 9))
            number = sum(map(len, self.model.values())) + sum(len(bodies) for _, bodies, _ in sent)
            bodies = [b"%06d" % (number + at) for at in range(max(count, 1))]
            stage(self.store, PLAIN, 0, b"x" * chance.randrange(400))
            placed = (
                stage_batch(self.store, BATCHES, queue_id, bodies)
                if count
                else stage(self.store, BATCHES, queue_id, bodies[0])
            )
            sent.append((queue_id, bodies, placed.physical_offset + placed.size_bytes))
        self.store.commit()
        for queue_id, bodies, end in sent:
            self.model[queue_id] += [(body, end) for body in bodies]

    def _expire(self) -> None:
        begin = drop_oldest(self.store)
        for queue_id, queue in self.model.items():
            self.first[queue_id] = next((n for n, (_, end) in enumerate(queue) if end > begin), len(queue))


def _check(moment: _Moment, files: MemoryFiles, durable: int) -> None:
    """Open what a crash left. ``durable``: the log below this offset must be there."""
    store = make_store(files, ManualClock(10_000_000), **SETTINGS)
    store.open()
    end = store.physical_max_offset
    assert end >= durable
    for queue_id, queue in moment.model.items():
        kept = [body for body, record_end in queue if record_end <= end]
        found = _bodies(store, queue_id)
        first = store.min_offset(BATCHES, queue_id)
        assert first + len(found) == store.max_offset(BATCHES, queue_id)
        assert found[: len(kept) - first] == kept[first:]
        assert first <= max(moment.first[queue_id], len(kept)) or store.physical_min_offset > 0
        placed = stage_batch(store, BATCHES, queue_id, [b"new 1", b"new 2"])
        assert placed.queue_offset == first + len(found) >= len(kept)
    store.commit()
    store.close()


def _bodies(store: MessageStore, queue_id: int) -> list[bytes]:
    offset, end = store.min_offset(BATCHES, queue_id), store.max_offset(BATCHES, queue_id)
    bodies: list[bytes] = []
    while offset < end:
        result = store.get(BATCHES, queue_id, offset, 16, 1 << 20)
        messages = list(unwrapped(decode_records(b"".join(result.chunks))))
        assert [m.queue_offset for m in messages] == list(range(offset, result.next_offset))
        bodies += [m.body for m in messages]
        offset = result.next_offset
    return bodies


def _explore(seed: int) -> None:
    run = _Run(seed)
    chance = random.Random(seed)
    for moment in run.moments[:: max(1, len(run.moments) // CRASHES_MAX)]:
        _check(moment, MemoryFiles.restored(moment.snapshot.image()), moment.written)
        for loss in (DROP_ALL, random_loss(chance)):
            _check(moment, MemoryFiles.restored(loss.of(moment.snapshot)), moment.synced)


@pytest.mark.parametrize("seed", range(2))
def test_after_any_crash_each_message_has_its_offset(seed: int) -> None:
    _explore(seed)


def _counts_one(real: Callable[..., int]) -> Callable[..., int]:
    return lambda sys_flag, properties: 1


BUGS = {
    "a record of the log counts as one message": (batch_queue, "message_count", _counts_one),
    "recovery takes batch queues for plain ones": (
        QueueDispatcher, "take", lambda real: lambda self, record: real(self, record._replace(sys_flag=0)),
    ),
    "offsets follow the units": (BatchQueue, "max_offset", lambda real: property(lambda self: self.units.max_offset)),
}  # fmt: skip


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_are_found(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where, name, change = BUGS[bug]
    monkeypatch.setattr(where, name, change(getattr(where, name)))
    with pytest.raises(Exception):  # noqa: B017 - each fails in its own way
        _explore(0)
