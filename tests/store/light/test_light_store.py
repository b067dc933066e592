"""Single properties of light queues: steps of a search, memory, entries that are not made twice, damage, other logs."""

from __future__ import annotations

import sys
import tracemalloc

import pytest

from pymq.clock import ManualClock
from pymq.errors import StoreError
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.light.entry_files import ENTRY_SIZE_BYTES, EntryFiles
from pymq.store.light.light_reader import LightEnds
from pymq.store.store import MessageStore
from tests.store.light.lights import held_lights, put_lite, stage_lite
from tests.store.support import ROOT, die, drop_oldest, make_store, put

LIGHTS = f"{ROOT}/lightqueue"
MEMORY_BYTES_MAX = 300  # of a lite topic


def test_a_long_queue_is_searched_in_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    store = make_store(MemoryFiles(), segment_size_bytes=1 << 20, light_file_entry_count=100_000)
    store.open()
    for number in range(5_000):
        stage_lite(store, "Jobs", 0, "long", b"%d" % number)
    store.commit()
    found = 0
    real = EntryFiles.find

    def count(self: EntryFiles, number: int) -> object:
        nonlocal found
        found += 1
        return real(self, number)

    monkeypatch.setattr(EntryFiles, "find", count)
    assert store.lights.ends("Jobs", "long").min_offset == 0
    assert found < 60
    store.close()


def test_a_lite_topic_costs_little_memory() -> None:
    store = make_store(MemoryFiles(), segment_size_bytes=1 << 22, light_file_entry_count=100_000)
    store.open()
    lights, count = store._lights, 50_000
    names = [f"session-of-customer-{number:08d}" for number in range(count)]
    sizes = sum(map(sys.getsizeof, names))
    tracemalloc.start()
    for number, name in enumerate(names):
        lights._append("Jobs", name, 0, number * 200, 200, 1)
        if number % 1000 == 0:
            lights.write()
    lights.write()
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    in_files = sum(store._files.begin_of(f"{LIGHTS}/{name}", 4096).size_bytes for name in store._files.listdir(LIGHTS))
    assert store.lights.count_of("Jobs") == count
    assert (used - in_files + sizes) / count < MEMORY_BYTES_MAX
    die(store)


def test_a_start_that_makes_consume_queues_again_does_not_repeat_entries() -> None:
    files = MemoryFiles()
    store = make_store(files)
    store.open()
    for number in range(12):
        put_lite(store, "Jobs", f"l{number % 5}", b"x")
    before, end = held_lights(store), store._lights.entry_end
    store.close()
    files.remove_tree(f"{ROOT}/consumequeue")
    store = make_store(files)
    store.open()
    assert (held_lights(store), store._lights.entry_end) == (before, end)
    store.close()


def test_lite_topics_of_a_deleted_parent_are_forgotten_also_by_a_start() -> None:
    files = MemoryFiles()
    store = make_store(files)
    store.open()
    for number in range(9):
        put_lite(store, "Jobs", f"l{number}", b"x")
    put_lite(store, "Chats", "c", b"x")
    store.close()
    store = make_store(files)
    store.open()
    store.delete_topics("Jobs")
    assert (store.lights.count, store.lights.count_of("Jobs")) == (1, 0)
    die(store)
    store = make_store(files)
    store.open()
    assert (store.lights.count, store.lights.count_of("Jobs")) == (1, 0)
    store.close()


def test_offsets_are_not_given_twice_after_a_lite_topic_was_forgotten() -> None:
    clock = ManualClock()
    store = make_store(MemoryFiles(now_ms=clock.now_ms), clock)
    store.open()
    for _ in range(3):
        put_lite(store, "Jobs", "a", b"x")
    while store.physical_max_offset < 4096:
        put(store, "Jobs", 0, b"y" * 500)
    clock.advance(20_000)
    store.tick()
    store.checkpoint()
    drop_oldest(store)
    assert not store.lights.has("Jobs", "a")
    assert store.lights.ends("Jobs", "a") == LightEnds(3, 3, 0)
    put_lite(store, "Jobs", "a", b"z")
    assert held_lights(store) == {("Jobs", "a"): [(3, b"z")]}
    store.close()


def test_a_table_that_is_ahead_of_its_checkpoint_is_not_read_by_a_later_start() -> None:
    """A start makes the newest entries again. Their queues may get other numbers than the table says."""
    files, clock = MemoryFiles(), ManualClock()

    def reopened() -> MessageStore:
        again = make_store(files, clock, light_table_entry_count=1000)
        again.open()
        return again

    def save_checkpoint() -> None:
        clock.advance(20_000)
        store.tick()
        store.checkpoint()

    store = reopened()
    put_lite(store, "Jobs", "gone", b"g0")
    put_lite(store, "Jobs", "kept", b"k0")
    save_checkpoint()
    assert store._lights.expire("Jobs", "gone", 1)
    put_lite(store, "Jobs", "new", b"n0")
    store._lights.write()
    noted = store._lights.note(store.physical_max_offset)
    assert noted.table is not None
    store._lights.save(noted)
    die(store)  # between the save of the table and that of the checkpoint
    store = reopened()
    put_lite(store, "Jobs", "gone", b"g1")
    save_checkpoint()
    die(store)
    store = reopened()
    assert {lite: [body for _, body in held] for (_, lite), held in held_lights(store).items()} == {
        "gone": [b"g0", b"g1"], "kept": [b"k0"], "new": [b"n0"]
    }  # fmt: skip
    store.close()


@pytest.mark.parametrize("has_more", [False, True])
def test_a_table_that_speaks_of_truncated_records_is_removed(has_more: bool) -> None:
    files = MemoryFiles()
    store = make_store(files)
    store.open()
    put_lite(store, "Jobs", "a", b"a0")
    if has_more:
        put(store, "Jobs", 0, b"x")
    end = store.physical_max_offset
    store.close()
    assert files.exists(f"{LIGHTS}/table")
    store = make_store(files)
    store.open()
    store._lights.truncate(end)
    assert files.exists(f"{LIGHTS}/table")
    store._lights.truncate(end - 1)
    assert not files.exists(f"{LIGHTS}/table")
    die(store)


def test_damage_of_a_running_store_is_reported_and_mended_by_the_next_start() -> None:
    files, clock = MemoryFiles(), ManualClock()
    store = make_store(files, clock)
    store.open()
    for number in range(8):
        put_lite(store, "Jobs", "a", b"%d" % number)
    clock.advance(20_000)
    store.tick()
    store.checkpoint()
    path = f"{LIGHTS}/{5 * ENTRY_SIZE_BYTES:020d}"
    files.nodes[path].write(2 * ENTRY_SIZE_BYTES + 3, b"\xff")
    with pytest.raises(StoreError, match="entry 7 of /store/lightqueue is damaged: restart the broker"):
        store.lights.ends("Jobs", "a")
    put_lite(store, "Jobs", "a", b"8")
    assert store.lights.max_offset("Jobs", "a") == 9
    clock.advance(20_000)
    store.tick()
    assert [problem for problem in store.problems if "entry 7" in problem]
    store.close()
    store = make_store(files)
    report = store.open()
    assert "they are made again from the log" in "".join(report.notes)
    assert held_lights(store) == {("Jobs", "a"): [(number, b"%d" % number) for number in range(9)]}
    assert not store.problems
    store.close()


def test_a_store_without_lite_topics_writes_no_files_for_them() -> None:
    files = MemoryFiles()
    store = make_store(files)
    store.open()
    put(store, "Jobs", 0, b"x")
    store.close()
    assert not files.exists(LIGHTS)


def test_light_queues_of_rocketmq_are_noted_together() -> None:
    files = MemoryFiles()
    for number in range(3):
        files.makedirs(f"{ROOT}/consumequeue/%LMQ%$Jobs$l{number}/0")
    files.makedirs(f"{ROOT}/consumequeue/a$b/0")
    store = make_store(files)
    notes = store.open().notes
    assert [note for note in notes if "left alone" in note] == [
        "consumequeue/a$b is no legal topic name: left alone",
        "3 light queues are RocketMQ's: left alone, the log has their messages",
    ]
    assert files.listdir(f"{ROOT}/consumequeue/%LMQ%$Jobs$l0") == ["0"]
    store.close()


@pytest.mark.parametrize("piece_size", [100, 3_000, 100_000])
def test_a_slave_has_the_same_light_queues(piece_size: int) -> None:
    clock = ManualClock()
    master = make_store(MemoryFiles(), clock, segment_size_bytes=1 << 20)
    slave = make_store(MemoryFiles(), clock, segment_size_bytes=1 << 20)
    master.open()
    slave.open()
    follower = slave.follow()
    for number in range(600):
        if number % 3:
            put_lite(master, "Jobs", f"l{number % 7}", b"%d" % number)
        else:
            put(master, "Jobs", 0, b"%d" % number)
    while follower.end < master.physical_max_offset:
        size = min(piece_size, master.physical_max_offset - follower.end)
        follower.append(follower.end, master.read_log(follower.end, size))
        follower.dispatch()
    assert held_lights(slave) == held_lights(master)
    master.close()
    slave.close()
