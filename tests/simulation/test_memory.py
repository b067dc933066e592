"""What a simulation keeps of processes that died: their objects stay until the run ends, so they must be small."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Iterator
from random import Random

import pytest

from pymq.clock import Clock, ManualClock
from pymq.store.disk import memory_fs
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.store import MessageStore
from tests.simulation import broker_node
from tests.simulation.broker_node import drop_read_caches
from tests.simulation.disk import SimDisk
from tests.simulation.master_slave.plan import hunting_plan
from tests.simulation.simulating import simulate
from tests.store.support import make_store, put

SEED = 7
KEPT_BYTES_MAX = 256 * 1024  # of a dead store, which kept up to 20 MiB of its files


def content_bytes(store: MessageStore) -> int:
    """Return the size of all contents that the objects of a store hold, without its files."""
    seen, waiting, total = {id(store)}, list[object]([store]), 0
    while waiting:
        for one in gc.get_referents(waiting.pop()):
            if isinstance(one, memoryview) and isinstance(one.obj, bytes):
                one = one.obj  # views of other objects are those of mapped files
            if id(one) in seen:
                continue
            seen.add(id(one))
            if isinstance(one, (bytes, bytearray)):
                total += len(one)
            elif isinstance(one, (dict, list, tuple, set, deque)) or is_part(one):
                waiting.append(one)
    return total


def is_part(one: object) -> bool:
    kind = type(one)
    return kind.__module__.startswith("pymq.store.") and kind.__module__ != memory_fs.__name__


@pytest.fixture
def dead(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[MessageStore]]:
    """The stores of all processes that have died so far."""
    found: list[MessageStore] = []
    real = broker_node.drop_read_caches

    def drop(clock: Clock) -> None:
        found.extend(store for owner, store in broker_node._opened_stores if owner is clock)
        real(clock)

    monkeypatch.setattr(broker_node, "drop_read_caches", drop)
    yield found
    found.clear()


def test_what_a_dead_store_keeps_of_its_files_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock()
    store = make_store(MemoryFiles(), clock, segment_size_bytes=1 << 20)
    store.open()
    for number in range(600):  # each queue's messages lie apart in the log, which is read in chunks then
        put(store, "T", number % 3, bytes(4000))
    store.close()
    store = make_store(store._files, clock, segment_size_bytes=1 << 20)  # all segments but the last are sealed
    store.open()
    for queue_id in (0, 1, 2):
        for offset in range(0, 200, 8):
            store.get("T", queue_id, offset, 8, 1 << 20)
    assert content_bytes(store) > 2 * KEPT_BYTES_MAX
    monkeypatch.setattr(broker_node, "_opened_stores", [(clock, store)])
    drop_read_caches(clock)
    assert content_bytes(store) < KEPT_BYTES_MAX
    assert not broker_node._opened_stores


def test_dead_processes_keep_little(dead: list[MessageStore], monkeypatch: pytest.MonkeyPatch) -> None:
    lost: list[int] = []
    real = SimDisk.lose_power

    def lose_power(self: SimDisk, chance: Random) -> None:
        nodes = list(self.files.nodes.values())
        real(self, chance)
        lost.append(sum(len(node.data) for node in nodes))

    monkeypatch.setattr(SimDisk, "lose_power", lose_power)
    assert not simulate(hunting_plan(SEED)).violations
    assert len(dead) > 3 and lost and not any(lost)
    sizes = [content_bytes(store) for store in dead]
    assert max(sizes) < KEPT_BYTES_MAX, sizes
    assert not broker_node._opened_stores
