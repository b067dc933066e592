"""Searches go backwards, in the order of time over all queues, within limits, and go on where they stopped."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest

from pymq.client import MessageQueue
from pymq.clock import ManualClock
from pymq.errors import PymqError, UnreachableError, UsageError
from pymq.operations.message.search import (
    QUEUES_MAX,
    SLOW_BLOCK_MS,
    BackwardSearch,
    Found,
    Hit,
    Limits,
    Part,
    Range,
    Stop,
    ranges_of,
)
from pymq.wire.bodies_admin import TopicOffset

PLENTY = Limits(1_000_000, 1_000_000, 1_000_000)
A, B = MessageQueue("orders", "broker-a", 0), MessageQueue("orders", "broker-b", 0)


class FakeParts:
    """Queues whose messages are their store times; a message matches if ``wants`` takes its time."""

    def __init__(self, *, knows_first: bool = True, part_count: int = 32) -> None:
        self.times: dict[MessageQueue, list[int]] = {}
        self.wants: Callable[[int], bool] = lambda time_ms: True
        self.knows_first = knows_first
        self.part_count = part_count
        self.failing: dict[MessageQueue, PymqError] = {}
        self.reads: list[tuple[MessageQueue, int, int]] = []
        self.clock = ManualClock()
        self.read_ms = 0

    async def read(self, queue: MessageQueue, offset: int, count_max: int) -> Part[int]:
        self.reads.append((queue, offset, count_max))
        self.clock.advance(self.read_ms)
        if queue in self.failing:
            raise self.failing[queue]
        times = self.times[queue][offset : offset + min(count_max, self.part_count)]
        hits = [Hit(offset + at, time_ms, time_ms) for at, time_ms in enumerate(times) if self.wants(time_ms)]
        return Part(hits, offset + len(times), times[0] if self.knows_first and times else None)

    async def time_at(self, queue: MessageQueue, offset: int) -> int | None:
        return self.times[queue][offset]

    def find(self, limits: Limits = PLENTY, at: dict[MessageQueue, int] | None = None, block: int = 4) -> Found[int]:
        ends = at or {queue: len(times) for queue, times in self.times.items()}
        search = BackwardSearch(self, self.clock, limits, block)
        return asyncio.run(search.find({queue: Range(0, end) for queue, end in ends.items()}))


@pytest.mark.parametrize("seed", range(20))
def test_pages_together_are_all_matches_newest_first(seed: int) -> None:
    rng = random.Random(seed)
    parts = FakeParts(knows_first=bool(seed % 2), part_count=rng.choice([1, 3, 32]))
    times = rng.sample(range(10_000), 300)  # no two alike: their order is known
    for number in range(5):
        parts.times[MessageQueue("orders", f"broker-{number % 2}", number)] = sorted(
            times[number * 60 : number * 60 + rng.randrange(61)]
        )
    parts.wants = lambda time_ms: time_ms % rng.choice([1]) == 0 and time_ms % (1 + seed % 4) == 0
    everything = [time_ms for there in parts.times.values() for time_ms in there]
    limits = Limits(rng.choice([1, 7, 50]), rng.choice([1, 20, 10_000]), 10_000)
    rows: list[int] = []
    found = parts.find(limits)
    scanned = found.scanned
    rows += found.rows
    for _ in range(1000):
        if found.stop is None:
            break
        found = parts.find(limits, found.reached)
        scanned += found.scanned
        rows += found.rows
    assert found.stop is None and found.left == 0
    assert rows == sorted(filter(parts.wants, everything), reverse=True)
    assert scanned == len(everything)


def test_a_page_ends_at_each_limit_and_says_which() -> None:
    parts = FakeParts()
    parts.times = {A: list(range(100)), B: list(range(100, 200))}
    found = parts.find(Limits(10, 1000, 1000))
    assert found.stop is Stop.found and found.rows == list(range(199, 189, -1))
    assert (found.scanned, found.left) == (10, 190)
    parts.wants = lambda time_ms: False
    found = parts.find(Limits(10, 24, 1000))
    assert found.stop is Stop.scanned and not found.rows
    assert 24 <= found.scanned <= 48 and found.scanned + found.left == 200
    parts.read_ms = 100
    found = parts.find(Limits(10, 1000, 300))
    assert found.stop is Stop.time and found.scanned + found.left == 200 and found.scanned


def test_a_page_that_ends_with_the_last_match_says_that_all_was_read() -> None:
    parts = FakeParts()
    parts.times = {A: [1, 2, 3]}
    found = parts.find(Limits(3, 1000, 1000))
    assert found.rows == [3, 2, 1] and found.stop is None and found.left == 0 and found.back_to_ms == 1


def test_nothing_stored_is_all_read() -> None:
    parts = FakeParts()
    parts.times = {A: []}
    found = parts.find()
    assert (found.rows, found.stop, found.scanned, found.back_to_ms) == ([], None, 0, None)
    assert not parts.reads


def test_a_queue_that_is_older_than_the_matches_is_read_once() -> None:
    parts = FakeParts()
    parts.times = {A: list(range(1000)), B: list(range(5000, 6000))}
    found = parts.find(Limits(50, 10_000, 10_000))
    assert found.rows == list(range(5999, 5949, -1))
    assert [queue for queue, _, _ in parts.reads].count(A) == 1


def test_the_time_down_to_which_all_was_looked_at_is_that_of_the_queue_that_is_least_far() -> None:
    parts = FakeParts()
    parts.times = {A: list(range(0, 1000, 10)), B: list(range(900, 1000))}
    parts.wants = lambda time_ms: False
    found = parts.find(Limits(50, 8, 10_000))
    assert found.reached == {A: 96, B: 96} and found.back_to_ms == 996, "queue A was read back to 960"
    parts.wants = lambda time_ms: True
    found = parts.find(Limits(3, 1000, 10_000))
    assert found.rows == [999, 998, 997] and found.back_to_ms == 996
    parts.failing = {A: UnreachableError("gone")}
    assert parts.find(Limits(3, 1000, 10_000)).back_to_ms is None


def test_a_queue_that_fails_is_named_and_stays_where_it_is() -> None:
    parts = FakeParts()
    parts.times = {A: [1, 3], B: [2, 4]}
    parts.failing = {B: UnreachableError("broker-b can't be reached")}
    found = parts.find()
    assert found.rows == [3, 1] and found.failed == {B: "broker-b can't be reached"}
    assert found.reached == {A: 0, B: 2} and found.left == 2
    parts.failing = {}
    assert parts.find(at=found.reached).rows == [4, 2]


def test_a_broker_that_has_less_than_it_should_is_named_and_nothing_is_passed_over() -> None:
    parts = FakeParts()
    parts.times = {A: [1, 2, 3]}
    found = parts.find(at={A: 7}, block=2)  # a slave that is behind, or a server that lies
    assert not found.rows and found.reached == {A: 7} and "it may be behind" in found.failed[A]
    assert len(parts.reads) == 1


def test_blocks_grow_while_they_are_quick_and_shrink_when_they_are_slow() -> None:
    parts = FakeParts(part_count=1)
    parts.times = {A: list(range(10_000))}
    parts.wants = lambda time_ms: False
    parts.read_ms = SLOW_BLOCK_MS // 10
    found = parts.find(Limits(10, 100_000, 5_000), block=1000)
    assert found.scanned, "a slow queue goes on all the same"
    parts.reads.clear()
    parts.read_ms, parts.part_count = 0, 10_000
    parts.find(block=4)
    assert [count for _, _, count in parts.reads][:5] == [4, 8, 16, 32, 64]
    assert max(count for _, _, count in parts.reads) == 1024


class FakeStats:
    """Offsets of a topic's queues, and what times mean in them."""

    def __init__(self, ends: dict[MessageQueue, tuple[int, int]], times: dict[int, int]) -> None:
        self._ends, self._times = ends, times
        self.topics = self.offsets = self

    async def stats(self, topic: str) -> dict[MessageQueue, TopicOffset]:
        return {queue: TopicOffset(min_offset=first, max_offset=end) for queue, (first, end) in self._ends.items()}

    async def at_time(self, queues: list[MessageQueue], time_ms: int) -> dict[MessageQueue, int]:
        return dict.fromkeys(queues, self._times[time_ms])


@pytest.mark.parametrize(
    ("begin_ms", "end_ms", "expected"),
    [
        (None, None, (10, 90)),
        (1, None, (20, 90)),
        (None, 2, (10, 51)),
        (1, 2, (20, 51)),
        (2, 1, (21, 21)),
        (0, 3, (10, 90)),
    ],
)
def test_times_become_offsets(begin_ms: int | None, end_ms: int | None, expected: tuple[int, int]) -> None:
    admin = FakeStats({A: (10, 90)}, {0: 0, 1: 20, 2: 50, 3: 400})
    assert asyncio.run(ranges_of(admin, "orders", begin_ms, end_ms)) == {A: Range(*expected)}  # type: ignore[arg-type]


def test_too_many_queues_are_refused() -> None:
    ends = {MessageQueue("orders", "broker-a", number): (0, 1) for number in range(QUEUES_MAX + 1)}
    with pytest.raises(UsageError, match="257 queues"):
        asyncio.run(ranges_of(FakeStats(ends, {}), "orders", None, None))  # type: ignore[arg-type]
    ends.popitem()
    assert len(asyncio.run(ranges_of(FakeStats(ends, {}), "orders", None, None))) == QUEUES_MAX  # type: ignore[arg-type]
