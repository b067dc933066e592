"""Steps through queues: the oldest first, bounded, and each begins where the last one ended."""

from __future__ import annotations

import asyncio

import pytest

from pymq.client import MessageQueue
from pymq.clock import ManualClock
from pymq.errors import UnreachableError
from pymq.operations.message.forward import READ_COUNT_MAX, Step, step_forward
from pymq.operations.message.search import Hit, Limits, Part, Range, Stop

A, B = (MessageQueue("orders", f"broker-{letter}", 0) for letter in "ab")
MANY = 10**9


class FakeParts:
    """Queues whose messages match when their offset is a multiple of ``every``."""

    def __init__(self, every: int = 1, read_count_max: int = 10, took_ms: int = 0) -> None:
        self.clock = ManualClock()
        self.failing: set[MessageQueue] = set()
        self.stuck: set[MessageQueue] = set()
        self._every = every
        self._read_count_max = read_count_max
        self._took_ms = took_ms
        self.counts: list[int] = []

    async def read(self, queue: MessageQueue, offset: int, count_max: int) -> Part[tuple[MessageQueue, int]]:
        self.counts.append(count_max)
        self.clock.advance(self._took_ms)
        if queue in self.failing:
            raise UnreachableError("it is away")
        if queue in self.stuck:
            return Part([], offset, None)
        end = offset + min(count_max, self._read_count_max) + 1  # one more than asked for
        hits = [Hit(at, at, (queue, at)) for at in range(offset, end) if at % self._every == 0]
        return Part(hits, end, None)

    async def time_at(self, queue: MessageQueue, offset: int) -> int | None:
        raise NotImplementedError

    def step(self, ranges: dict[MessageQueue, Range], limits: Limits | None = None) -> Step[tuple[MessageQueue, int]]:
        return asyncio.run(step_forward(self, self.clock, limits or Limits(MANY, MANY, MANY), ranges))


def test_all_is_read_queue_by_queue() -> None:
    parts = FakeParts()
    found = parts.step({B: Range(5, 8), A: Range(0, 30)})
    assert found.rows == [(A, at) for at in range(30)] + [(B, at) for at in range(5, 8)]
    assert (found.scanned, found.left, found.stop, found.failed) == (33, 0, None, {})
    assert max(parts.counts) <= READ_COUNT_MAX


@pytest.mark.parametrize("found_max", [1, 3, 7, 100])
@pytest.mark.parametrize("every", [1, 3])
def test_steps_find_each_message_once(found_max: int, every: int) -> None:
    parts, ranges = FakeParts(every), {A: Range(2, 40), B: Range(0, 17)}
    rows = []
    for _ in range(100):
        found = parts.step(ranges, Limits(found_max, MANY, MANY))
        assert len(found.rows) <= found_max
        rows += found.rows
        ranges = {queue: Range(at, found.ends[queue]) for queue, at in found.reached.items()}
        if not found.left:
            break
    assert rows == [
        (queue, at) for queue, first, end in ((A, 2, 40), (B, 0, 17)) for at in range(first, end) if at % every == 0
    ]


def test_limits_end_a_step() -> None:
    found = FakeParts(1000).step({A: Range(1, 500)}, Limits(MANY, 25, MANY))
    assert (
        found.stop is Stop.scanned and 25 <= found.scanned < 25 + READ_COUNT_MAX and found.left == 499 - found.scanned
    )
    found = FakeParts(1000, took_ms=100).step({A: Range(1, 500)}, Limits(MANY, MANY, 250))
    assert found.stop is Stop.time and found.scanned == 33
    found = FakeParts().step({A: Range(0, 5)}, Limits(5, MANY, MANY))
    assert found.stop is None and len(found.rows) == 5, "the last one ends no search early"


@pytest.mark.parametrize("fault", ["failing", "stuck"])
def test_a_broker_that_fails_hides_no_other(fault: str) -> None:
    parts = FakeParts()
    getattr(parts, fault).add(A)
    found = parts.step({A: Range(3, 9), B: Range(0, 2)})
    assert found.rows == [(B, 0), (B, 1)] and list(found.failed) == [A]
    assert found.left == 6 and found.reached[A] == 3
