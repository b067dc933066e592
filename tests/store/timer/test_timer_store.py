"""Wheel, timer log and checkpoint: RocketMQ's bytes, chains against a model, and what a crash leaves."""

from __future__ import annotations

import struct
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pymq.store.disk.fs import make_directory
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.disk.timer_checkpoint import TimerCheckFile
from pymq.store.timer.timer_log import BLANK_MAGIC, UNIT_BYTES, TimerLog
from pymq.store.timer.timer_store import MAGIC_DELETE, NO_POSITION, TimerProgress, TimerStore, TimerUnit
from pymq.store.timer.timer_wheel import Slot, TimerWheel
from tests.planting import Bug, Text

ROOT = "/data"
SLOTS = 64
SEGMENT_BYTES = 10 * UNIT_BYTES + 20  # ten units and the blank end
START_MS = 1_700_000_000_000
PHYSICAL_END = 1 << 40


def opened(files: MemoryFiles) -> tuple[TimerStore, TimerProgress | None]:
    make_directory(files, ROOT)
    make_directory(files, f"{ROOT}/config")
    store = TimerStore(files, ROOT, segment_bytes=SEGMENT_BYTES, precision_ms=1000, slot_count=SLOTS)
    return store, store.open(PHYSICAL_END)


def unit(slot: int, physical_offset: int, magic: int = 1, due_after_ms: int = 0) -> TimerUnit:
    return TimerUnit(NO_POSITION, magic, START_MS, slot * 1000, physical_offset, 100, 77, due_after_ms)


def chain(store: TimerStore, slot: int) -> list[int]:
    found = store.wheel.slot(START_MS + slot * 1000)
    return [] if found is None else [each.physical_offset for _, each in store.chain(found.last)]


def save(store: TimerStore, read_ms: int, queue_offset: int) -> None:
    state = store.state(TimerProgress(read_ms, queue_offset), queue_offset)
    store.write(state)
    store.written(state)


def test_the_bytes_are_rocketmqs() -> None:
    files = MemoryFiles()
    store, progress = opened(files)
    assert progress == TimerProgress(0, 0) and files.listdir(ROOT) == ["config"]
    store.add([unit(3, 4096, due_after_ms=250), unit(3, 5000, MAGIC_DELETE | 1)])
    store.version = (0, 5, 6)
    save(store, START_MS, 2)
    log = files.read_bytes(f"{ROOT}/timerlog/{0:020d}")
    assert len(log) == SEGMENT_BYTES
    assert log[:52] == struct.pack(">iqiqiqiiq", 52, -1, 1, START_MS, 3000, 4096, 100, 77, 250)
    assert log[52:104] == struct.pack(">iqiqiqiiq", 52, 0, 5, START_MS, 3000, 5000, 100, 77, 0)
    wheel = files.read_bytes(f"{ROOT}/timerwheel")
    number = START_MS // 1000 + 3
    assert len(wheel) == 2 * SLOTS * 32
    assert wheel[number % (2 * SLOTS) * 32 :][:32] == struct.pack(">qqqii", number, 0, 52, 0, 0)
    assert struct.unpack(">7q", files.read_bytes(f"{ROOT}/config/timercheck")[:56]) == (START_MS, 104, 2, 2, 0, 5, 6)


def test_a_full_segment_ends_with_a_blank() -> None:
    files = MemoryFiles()
    store, _ = opened(files)
    store.add([unit(1, 100 + number) for number in range(25)])
    first = files.read_bytes(f"{ROOT}/timerlog/{0:020d}")
    assert struct.unpack_from(">iqi", first, 10 * UNIT_BYTES) == (20, 0, BLANK_MAGIC)
    assert files.listdir(f"{ROOT}/timerlog") == [f"{number * SEGMENT_BYTES:020d}" for number in range(3)]
    assert chain(store, 1) == [100 + number for number in reversed(range(25))]
    assert store.log.drop_before(110) == 1 and store.log.begin == SEGMENT_BYTES
    assert chain(store, 1) == [100 + number for number in reversed(range(10, 25))]


_STEPS = st.lists(
    st.one_of(
        st.lists(st.integers(0, 40), min_size=1, max_size=12),  # units for these slots
        st.sampled_from(["save", "kill", "power", "forget"]),
    ),
    max_size=14,
)


@settings(max_examples=60, deadline=None)
@given(_STEPS)
def test_slots_are_those_of_a_model_after_any_crash(steps: list[list[int] | str]) -> None:
    """Records behind the checkpoint are added again, so a unit may be there twice; none is missing, none is foreign."""
    check(steps)


def check(steps: list[list[int] | str]) -> None:
    files = MemoryFiles()
    store, _ = opened(files)
    slots: dict[int, list[int]] = {}
    added: list[tuple[int, int]] = []  # (slot, offset) by queue offset
    durable = TimerProgress(0, 0)
    for step in steps:
        if isinstance(step, list):
            units = []
            for slot in step:
                added.append((slot, 1000 + len(added)))
                slots.setdefault(slot, []).append(added[-1][1])
                units.append(unit(*added[-1]))
            store.add(units)
        elif step == "save":
            save(store, START_MS, len(added))
            durable = TimerProgress(START_MS, len(added))
        elif step == "forget" and slots:
            slot = min(slots)
            store.wheel.forget(START_MS + slot * 1000)
            del slots[slot]
            save(store, START_MS, len(added))
            durable = TimerProgress(START_MS, len(added))
        elif step in ("kill", "power"):
            store.close()
            files = files.after_power_loss(lambda *_: False, lambda *_: False) if step == "power" else files
            store, progress = opened(files)
            assert progress == durable
            again = added[durable.queue_offset :]
            store.add([unit(*each) for each in again])
            del added[durable.queue_offset :]
            added += again
    for slot in range(41):
        assert set(chain(store, slot)) == set(slots.get(slot, []))


def test_units_of_records_that_a_power_loss_took_are_cut_off() -> None:
    files = MemoryFiles()
    store, _ = opened(files)
    store.add([unit(1, 1000)])
    save(store, START_MS, 1)
    store.add([unit(2, 1100), unit(2, 1200), unit(2, 1300)])
    store.close()
    again = TimerStore(files, ROOT, segment_bytes=SEGMENT_BYTES, precision_ms=1000, slot_count=SLOTS)
    assert again.open(1300) == TimerProgress(START_MS, 1)
    assert chain(again, 2) == [1200, 1100] and again.linked == {1100: START_MS + 2000, 1200: START_MS + 2000}
    again.add([unit(3, 1300)])
    assert chain(again, 3) == [1300] and chain(again, 2) == [1200, 1100]


@pytest.mark.parametrize("segment_count", [1, 2])
def test_a_segment_that_a_crash_left_without_its_size_is_no_obstacle(segment_count: int) -> None:
    files = MemoryFiles()
    store, _ = opened(files)
    if segment_count == 2:
        store.add([unit(1, 1000 + number) for number in range(10)])
        save(store, START_MS, 10)
    else:
        make_directory(files, f"{ROOT}/timerlog")
    store.close()
    files.open(f"{ROOT}/timerlog/{(segment_count - 1) * SEGMENT_BYTES:020d}", create=True, size=0).close()
    store, progress = opened(files)
    assert progress is not None
    store.add([unit(1, 2000)])
    assert chain(store, 1)[0] == 2000 and len(chain(store, 1)) == 1 + 10 * (segment_count - 1)


@pytest.mark.parametrize("damage", ["wheel", "log", "wheel size", "log end"])
def test_files_that_do_not_fit_are_noticed(damage: str) -> None:
    files = MemoryFiles()
    store, _ = opened(files)
    store.add([unit(number, 100 + number) for number in range(30)])
    save(store, START_MS, 30)
    store.close()
    wheel = files.open(f"{ROOT}/timerwheel")
    if damage == "wheel":
        files.remove(f"{ROOT}/timerwheel")
    elif damage == "log":
        files.remove_tree(f"{ROOT}/timerlog")
    elif damage == "wheel size":
        wheel.truncate(100)
    else:
        files.remove(f"{ROOT}/timerlog/{2 * SEGMENT_BYTES:020d}")
    store, progress = opened(files)
    assert progress is None and store.checkpoint() == TimerProgress(START_MS, 30)
    store.clear()
    store.add([unit(5, 1)])
    assert chain(store, 5) == [1]


def random_steps(rng: Random) -> list[list[int] | str]:
    kinds: list[list[int] | str] = ["save", "kill", "power", "forget"]
    return [
        rng.choice(kinds) if rng.random() < 0.5 else [rng.randrange(12) for _ in range(rng.randint(1, 12))]
        for _ in range(14)
    ]


def nothing(*_: object, **__: object) -> None: ...


@pytest.mark.parametrize(
    ("owner", "name", "broken"),
    [
        (TimerLog, "sync", lambda log: log.end),
        (TimerWheel, "write", nothing),
        (TimerWheel, "written", lambda wheel, changes: wheel._changed.clear() or wheel.close()),
        (TimerStore, "write", lambda store, state: store._check_file.write((1, 0, 9, 9, 0, 0, 0))),
    ],
)
def test_seeded_bugs_are_caught(monkeypatch: pytest.MonkeyPatch, owner: type, name: str, broken: object) -> None:
    monkeypatch.setattr(owner, name, broken)
    rng = Random(5)
    with pytest.raises((AssertionError, OSError, struct.error)):
        for _ in range(300):
            check(random_steps(rng))


def rewritten_slot() -> Slot | None:
    """Return a slot that was written again after its checkpoint, as a start finds it."""
    files = MemoryFiles()
    store, _ = opened(files)
    store.add([unit(3, 100), unit(3, 101)])
    save(store, START_MS, 2)
    store.rewrite(START_MS + 3000, [unit(3, 102)])
    store.close()  # neither the wheel nor the checkpoint knows of it
    store, _ = opened(files)
    assert chain(store, 3) == [102]
    return store.wheel.slot(START_MS + 3000)


def test_a_slot_that_was_written_again_holds_no_more_than_that() -> None:
    found = rewritten_slot()
    assert found is not None and (found.first, found.last, found.num) == (2 * UNIT_BYTES, 2 * UNIT_BYTES, 1)
    bug = Bug("linked to what it held", Text(TimerStore._link, "and unit.previous == slot.last", ""), ())
    with bug.planted():
        assert rewritten_slot() != found


def test_units_that_only_the_log_has_are_linked() -> None:
    """A RocketMQ broker does not write its wheel when it stops: units behind the log's flushed position are read."""
    files = MemoryFiles()
    store, _ = opened(files)
    store.add([unit(3, 100)])
    save(store, START_MS, 1)
    store.add([unit(3, 101), unit(4, 102)])
    TimerCheckFile(files, ROOT).write((START_MS, UNIT_BYTES, 3, 3, 0, 0, 0))
    store.close()
    store, progress = opened(files)
    assert progress == TimerProgress(START_MS, 3)
    assert chain(store, 3) == [101, 100] and chain(store, 4) == [102]
    found = store.wheel.slot(START_MS + 3000)
    assert found is not None and (found.num, found.first, store.count_from(START_MS)) == (2, 0, 3)
