"""ConsumeQueue: the minimum follows the log, also past blank units; files are removed when no reader needs them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pymq.model.layout import BLANK_UNIT, BLANK_UNIT_SIZE, UNIT
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.queue.consume_queue import ConsumeQueue
from pymq.store.queue.queue_files import QueueFiles

UNITS_PER_FILE = 10
GAP = -1


def make_queue(physical_offsets: list[int], first: int = 0) -> tuple[MemoryFiles, ConsumeQueue]:
    """Return a queue in files with a unit (size 10) for each physical offset, a blank unit for each GAP."""
    files = MemoryFiles()
    files.makedirs("/q")
    queue = ConsumeQueue(QueueFiles(files, "/q", UNITS_PER_FILE * 20, 4), "T", 0)
    if first:
        queue.start_at(first)
    for offset in physical_offsets:
        if offset == GAP:
            queue.skip_to(queue.max_offset + 1)
        else:
            queue.append(offset, 10, 0)
    queue.write_tail()
    return files, queue


@pytest.mark.parametrize(
    ("log_min", "expected"), [(0, 0), (1, 1), (100, 10), (101, 11), (240, 24), (241, 25), (999, 25)]
)
def test_the_minimum_is_the_first_unit_still_in_the_log(log_min: int, expected: int) -> None:
    _, queue = make_queue(list(range(0, 250, 10)))
    queue.raise_min(log_min)
    assert queue.min_offset == expected
    queue.raise_min(0)
    assert queue.min_offset == expected  # it never goes back


def test_a_minimum_is_not_looked_for_again_until_units_are_dropped_or_blank(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start has found it for each of perhaps 80,000 queues; the first pass of retention reads none of their files."""
    _, queue = make_queue(list(range(0, 250, 10)))
    queue.find_begin(100)
    queue.append(250, 10, 0)
    with monkeypatch.context() as patched:
        patched.setattr(ConsumeQueue, "read", None)
        queue.raise_min(100)
        queue.raise_min(50)
    assert queue.min_offset == 10
    queue.raise_min(110)
    assert queue.min_offset == 11
    queue.truncate(0)
    queue.skip_to(3)
    queue.append(300, 10, 0)
    queue.raise_min(110)
    assert queue.min_offset == 3


def test_lost_records_do_not_move_the_minimum_past_good_ones() -> None:
    _, queue = make_queue([0, 10, 20, *[GAP] * 30, 330, 340])
    queue.raise_min(10)
    assert queue.min_offset == 1
    queue.raise_min(25)
    assert queue.min_offset == 33


def test_a_queue_that_ends_with_blank_records_keeps_the_units_before_them() -> None:
    _, queue = make_queue([0, 10, GAP, GAP])
    queue.truncate(4)
    queue.raise_min(10)
    assert queue.min_offset == 1
    queue.raise_min(11)
    assert queue.min_offset == queue.max_offset == 4


def test_a_queue_that_begins_later_begins_at_its_first_unit() -> None:
    _, queue = make_queue([500, 510], first=17)
    queue.min_offset = 10  # where its first file begins, as a start finds it
    queue.raise_min(0)
    assert queue.min_offset == 17


def test_messages_are_counted_from_any_log_offset() -> None:
    _, queue = make_queue(list(range(0, 250, 10)))
    for number in range(25):
        assert queue.count_from(10 * number) == 25 - number
        assert queue.count_from(10 * number + 1) == 24 - number
    assert make_queue([])[1].count_from(0) == 0


def test_the_next_message_of_a_queue_is_found_in_the_log() -> None:
    _, queue = make_queue([0, 10, GAP, GAP, 40])
    assert [queue.physical_offset_from(offset) for offset in range(6)] == [0, 10, 40, 40, 40, -1]


@given(st.lists(st.booleans(), max_size=60), st.integers(0, 700))
def test_the_minimum_is_what_a_walk_finds(is_gap: list[bool], log_min: int) -> None:
    offsets = [GAP if gap else 10 * number for number, gap in enumerate(is_gap)]
    _, queue = make_queue(offsets)
    queue.raise_min(log_min)
    good = [number for number, offset in enumerate(offsets) if offset >= log_min]
    assert queue.min_offset == (good[0] if good else len(offsets))


@pytest.mark.parametrize(("minimum", "left"), [(0, 4), (10, 4), (11, 3), (20, 3), (21, 2), (30, 2), (31, 1), (35, 1)])
def test_a_file_is_deleted_when_its_successor_too_begins_below_the_minimum(minimum: int, left: int) -> None:
    files, queue = make_queue(list(range(0, 350, 10)))
    queue.min_offset = minimum
    removed = queue.drop_old_files(100)
    assert (len(files.nodes), removed) == (left, 4 - left)
    assert queue.base_offset == removed * UNITS_PER_FILE
    assert queue.unit(34) == (340, 10, 0)


def test_files_are_deleted_in_slices() -> None:
    files, queue = make_queue(list(range(0, 1000, 10)))
    queue.min_offset = 95
    assert [queue.drop_old_files(4) for _ in range(4)] == [4, 4, 1, 0]
    assert len(files.nodes) == 1


def test_a_file_that_a_power_loss_brought_back_is_deleted_with_the_next() -> None:
    files, queue = make_queue(list(range(0, 350, 10)))
    files.remove(f"{queue.directory}/{200:020d}")
    again = ConsumeQueue(QueueFiles(files, "/q", UNITS_PER_FILE * 20, 4), "T", 0)
    again.open_files()
    again.end_with(35, again.file_starts())
    assert again.base_offset == 20
    again.raise_min(320)
    assert again.drop_old_files(100) == 2 and len(files.nodes) == 1


def test_a_blank_has_the_bytes_that_rocketmq_writes() -> None:
    assert UNIT.unpack(BLANK_UNIT) == (0, BLANK_UNIT_SIZE, 0) == (0, 2147483647, 0)
