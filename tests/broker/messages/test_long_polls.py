"""Parked pulls: woken by a fitting arrival, by their deadline, never twice; the table is bounded."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from pymq.broker.messages.long_polls import QUEUE_FILTERS_MAX, SUSPEND_MAX_MS, LongPolls, ParkedPull
from pymq.broker.messages.message_filter import MessageFilter
from pymq.broker.messages.waiting_table import SLICE_MS, TURN_BYTES_MAX, WAITING_BYTES
from pymq.clock import ManualClock
from pymq.errors import Refusal
from pymq.net.memory_budget import MIB, PARKED_REQUESTS, UNREAD_ANSWERS, MemoryBudget
from pymq.store.read.reading import Accept
from pymq.wire.command import Command

EVERYTHING = MessageFilter()
LIMIT_BYTES = 256 * MIB


class Waiter:
    """The connection of a pull."""

    def __init__(self, closed: bool = False) -> None:
        self.closed = closed
        self.is_behind = False


class Table:
    """A LongPolls under a clock moved by hand that records which pulls were retried."""

    def __init__(self, count_max: int = 10) -> None:
        self.clock = ManualClock()
        self.retried: list[str] = []
        self.looked = 0
        self.takes_ms = 0  # one answer
        self._names: list[str] = []  # by opaque
        self.answer_size_bytes = 0
        self.refused: list[str] = []
        self.budget = MemoryBudget(LIMIT_BYTES)
        self.polls = LongPolls(
            self.clock,
            self._retry,
            count_max,
            budget=self.budget,
            refuse=lambda parked: self.refused.append(self._names[parked.request.opaque]),
        )

    def _retry(self, parked: ParkedPull) -> int:
        self.retried.append(self._names[parked.request.opaque])
        self.clock.advance(self.takes_ms)
        return self.answer_size_bytes

    def arrive(self, queue_id: int, tags_codes: list[int], *accepted: Accept) -> None:
        """Let messages arrive in a queue. Only the filters in ``accepted`` accept them."""

        def any_accepted(message_filter: MessageFilter) -> bool:
            self.looked += 1
            return message_filter.accept in accepted

        self.polls.on_arrival("T", queue_id, tags_codes, any_accepted)

    def park(
        self,
        name: str,
        *,
        queue_id: int = 0,
        message_filter: MessageFilter = EVERYTHING,
        suspend_ms: int = 1000,
        peer: Waiter | None = None,
    ) -> bool:
        header = SimpleNamespace(topic="T", queue_id=queue_id)
        self._names.append(name)
        request = Command(11, opaque=len(self._names) - 1, ext={"subscription": "x" * 1000}, body=bytes(1000))
        waiter: Any = peer or Waiter()
        return self.polls.park(waiter, request, header, message_filter, suspend_ms)

    def defer(self, name: str) -> None:
        self._names.append(name)
        waiter: Any = Waiter()
        request = Command(11, opaque=len(self._names) - 1)
        self.polls.defer(waiter, request, SimpleNamespace(topic="T", queue_id=0), EVERYTHING)


def test_an_arrival_wakes_the_pulls_of_its_queue_only() -> None:
    table = Table()
    table.park("a")
    table.park("b", queue_id=1)
    table.arrive(0, [0])
    table.polls.wake()
    assert table.retried == ["a"]
    assert table.polls.count == 1


def test_a_single_due_pull_is_answered_before_the_turn_s_answers_are_written() -> None:
    table = Table()
    table.park("a")
    table.polls.wake_the_only_one()
    assert table.retried == []
    table.arrive(0, [0])
    table.polls.wake_the_only_one()
    assert table.retried == ["a"] and table.polls.count == 0
    assert not table.polls.wake()


def test_of_several_due_pulls_none_is_answered_before_the_turn_s_answers_are_written() -> None:
    table = Table()
    for name in "ab":
        table.park(name)
    table.arrive(0, [0])
    table.polls.wake_the_only_one()
    assert table.retried == []
    table.polls.wake()
    assert table.retried == ["a", "b"]


def test_a_single_due_pull_waits_for_the_next_turn_when_this_one_is_full() -> None:
    table = Table()
    table.park("a")
    table.arrive(0, [0])
    table.polls.turn_bytes = TURN_BYTES_MAX + 1
    table.polls.wake_the_only_one()
    assert table.retried == []
    table.polls.wake()
    assert table.retried == ["a"]


def test_a_tag_that_does_not_fit_leaves_the_pull_parked() -> None:
    table = Table()
    table.park("a", message_filter=MessageFilter(frozenset({7})))
    table.arrive(0, [8, 9])
    table.polls.wake()
    assert table.retried == []
    table.arrive(0, [8, 7])
    table.polls.wake()
    assert table.retried == ["a"]


def test_records_are_looked_at_once_for_all_pulls_with_the_same_test() -> None:
    table = Table()

    def wants(record: memoryview) -> bool:
        raise AssertionError("the table doesn't look itself")

    def wants_other(record: memoryview) -> bool:
        raise AssertionError("the table doesn't look itself")

    for name in ("a", "b"):
        table.park(name, message_filter=MessageFilter(accept=wants))
    table.park("c", message_filter=MessageFilter(accept=wants_other))
    table.arrive(0, [0], wants)
    table.polls.wake()
    assert table.retried == ["a", "b"] and table.looked == 2
    table.arrive(0, [0])
    table.polls.wake()
    assert table.polls.count == 1 and table.looked == 3


def test_the_deadline_answers_a_pull_once() -> None:
    table = Table()
    table.park("a", suspend_ms=500)
    table.clock.advance(499)
    table.polls.tick()
    assert table.retried == []
    table.clock.advance(1)
    table.polls.tick()
    table.arrive(0, [0])
    table.polls.wake()
    assert table.retried == ["a"]
    assert table.polls.count == 0


def test_a_long_suspension_is_clamped() -> None:
    table = Table()
    table.park("a", suspend_ms=10**9)
    table.clock.advance(SUSPEND_MAX_MS)
    table.polls.tick()
    assert table.retried == ["a"]


def test_a_full_table_parks_no_more() -> None:
    table = Table(count_max=2)
    assert table.park("a") and table.park("b")
    assert not table.park("c")
    assert table.polls.refused_count == 1


def test_a_closed_peer_is_not_answered() -> None:
    table = Table()
    table.park("a", peer=Waiter(closed=True))
    table.arrive(0, [0])
    table.polls.wake()
    assert table.retried == []
    assert table.polls.count == 0


def test_the_pulls_of_an_ended_connection_are_dropped() -> None:
    table = Table()
    gone, other = Waiter(), Waiter()
    table.park("a", peer=gone)
    table.park("b", peer=gone, queue_id=1)
    table.park("c", peer=other)
    ended: Any = gone
    table.polls.disconnect(ended)
    ended.closed = True
    table.polls.wake()
    assert table.polls.count == 1
    assert not table.polls.is_waited_for("T", 1)
    table.polls.disconnect(ended)
    table.polls.release_some()
    assert table.retried == ["c"] and table.polls.count == 0


def test_parked_pulls_count_until_they_are_answered() -> None:
    table = Table()
    table.park("a", message_filter=MessageFilter(size_bytes=500))
    assert table.budget.held[PARKED_REQUESTS] == table.budget.total_bytes == WAITING_BYTES + 500
    table.park("b")
    table.arrive(0, [0])
    table.polls.wake()
    assert table.budget.total_bytes == 0


def test_a_pull_without_room_in_the_budget_is_refused_as_busy() -> None:
    table = Table()
    table.budget.hold(UNREAD_ANSWERS, LIMIT_BYTES - WAITING_BYTES)
    assert table.park("a")
    text = rf"a waiting pull needs {WAITING_BYTES} bytes.*{LIMIT_BYTES} \(memoryBudgetBytes\)"
    with pytest.raises(Refusal, match=text) as caught:
        table.park("b", queue_id=1)
    assert caught.value.code == 2
    assert (table.polls.count, table.budget.refused_count) == (1, 1)
    assert not table.polls.is_waited_for("T", 1)


def test_due_pulls_are_answered_in_slices_of_bytes() -> None:
    table = Table()
    table.answer_size_bytes = TURN_BYTES_MAX // 2 + 1
    for name in "abc":
        table.park(name)
    table.arrive(0, [0])
    assert table.polls.wake() and table.retried == ["a", "b"]
    assert not table.polls.wake() and table.retried == ["a", "b", "c"]


def test_a_deferred_pull_is_answered_in_a_later_turn_whatever_room_there_is() -> None:
    table = Table()
    table.budget.hold(UNREAD_ANSWERS, LIMIT_BYTES - WAITING_BYTES)
    table.defer("a")
    table.budget.closing_bytes = 1
    assert table.polls.wake() and table.retried == []
    table.budget.closing_bytes = 0
    assert not table.polls.wake() and table.retried == ["a"]
    assert table.polls.count == 0


def test_due_pulls_wait_while_half_of_the_budget_is_held() -> None:
    table = Table()
    table.park("a")
    table.arrive(0, [0])
    table.budget.hold(UNREAD_ANSWERS, LIMIT_BYTES // 2)
    assert not table.polls.wake() and table.retried == []
    table.budget.hold(UNREAD_ANSWERS, -WAITING_BYTES)
    table.polls.tick()
    assert table.retried == ["a"]


def test_the_due_pull_of_a_peer_that_does_not_read_waits_for_the_peer_alone() -> None:
    table = Table()
    behind = Waiter()
    behind.is_behind = True
    table.park("a", peer=behind)
    table.park("b")
    table.arrive(0, [0])
    assert not table.polls.wake() and table.retried == ["b"]
    table.polls.tick()
    assert table.retried == ["b"]
    behind.is_behind = False
    table.polls.tick()
    assert table.retried == ["b", "a"]


def test_a_due_pull_without_room_until_its_deadline_is_refused() -> None:
    table = Table()
    table.park("a", suspend_ms=500)
    table.arrive(0, [0])
    table.budget.hold(UNREAD_ANSWERS, LIMIT_BYTES)
    table.polls.wake()
    table.clock.advance(500)
    table.polls.tick()
    assert (table.retried, table.refused, table.polls.count) == ([], ["a"], 0)


def test_a_release_answers_everything() -> None:
    table = Table()
    behind = Waiter()
    table.park("a")
    table.park("b", queue_id=3)
    table.defer("c")
    table.park("d", peer=behind)
    table.arrive(0, [0])
    behind.is_behind = True
    assert not table.polls.release_some()
    assert (sorted(table.retried), table.refused, table.polls.count) == (["a", "b", "c"], ["d"], 0)


def test_a_release_takes_turns_of_a_slice_and_lets_nothing_park_meanwhile() -> None:
    table = Table(count_max=100)
    table.takes_ms = 1
    for number in range(SLICE_MS + 5):
        table.park(str(number))
    assert table.polls.release_some() and len(table.retried) == SLICE_MS
    assert not table.park("late")
    assert not table.polls.release_some() and table.polls.count == 0


def test_answered_pulls_do_not_pile_up() -> None:
    table = Table()
    for number in range(1000):
        table.park("a", suspend_ms=SUSPEND_MAX_MS - number % 2)
        table.arrive(0, [0])
        table.polls.wake()
    waiting = table.polls._table
    assert len(waiting._deadlines) == len(waiting._by_deadline) == 2, "each deadline once, however often it is given"
    assert not any(waiting._by_deadline.values()) and waiting.next_deadline_ms is None and not waiting._by_deadline


def test_pulls_that_leave_before_their_deadlines_cost_no_walk_over_the_others() -> None:
    table = Table(count_max=1000)
    for number in range(1000):
        table.park(str(number), suspend_ms=SUSPEND_MAX_MS)
    (of_deadline,) = table.polls._table._by_deadline.values()
    counted = table.polls._table._by_deadline[table.clock.monotonic_ms() + SUSPEND_MAX_MS] = Counted(of_deadline)
    Counted.pop_count = Counted.walk_count = 0
    table.arrive(0, [0])
    while table.polls.wake():
        pass
    assert (len(counted), Counted.pop_count, Counted.walk_count) == (0, 1000, 0)


def test_due_pulls_are_answered_in_slices_between_which_others_have_their_turn() -> None:
    table = Table(count_max=100)
    table.takes_ms = 1
    for number in range(25):
        table.park(str(number), suspend_ms=SUSPEND_MAX_MS)
    table.arrive(0, [0])

    assert table.polls.wake() and len(table.retried) == SLICE_MS
    assert table.polls.wake() and len(table.retried) == 2 * SLICE_MS
    assert not table.polls.wake() and table.retried == [str(number) for number in range(25)]


def test_overdue_pulls_are_answered_in_slices_too() -> None:
    table = Table(count_max=100)
    for number in range(25):
        table.park(str(number), suspend_ms=100)
    table.clock.advance(100)
    table.takes_ms = 1
    table.polls.tick()
    assert len(table.retried) <= SLICE_MS
    while table.polls.wake():
        pass
    assert table.retried == [str(number) for number in range(25)] and table.polls.count == 0


def test_pulls_that_an_arrival_makes_due_do_not_delay_overdue_ones() -> None:
    table = Table(count_max=100)
    table.park("overdue", queue_id=1, suspend_ms=1)
    for number in range(50):
        table.park(str(number))
    table.clock.advance(1)
    table.arrive(0, [0])
    table.takes_ms = 1
    table.polls.tick()
    assert "overdue" in table.retried and len(table.retried) <= SLICE_MS + 1


def test_a_queue_of_pulls_with_falling_deadlines_is_left_one_by_one_without_a_search() -> None:
    table = Table(count_max=20_000)
    for number in range(20_000):
        table.park(str(number), suspend_ms=20_000 - number)
    group = next(iter(table.polls._by_queue["T", 0].values()))
    group.pulls = Counted(group.pulls)
    Counted.pop_count = Counted.walk_count = 0
    table.clock.advance(20_000)
    table.polls.tick()
    assert len(table.retried) == 20_000 and table.polls.count == 0 and not table.polls.is_waited_for("T", 0)
    assert Counted.pop_count == 20_000 and Counted.walk_count == 0


def test_pulls_with_one_filter_are_looked_at_together() -> None:
    table = Table(count_max=1000)
    seen = 0

    class Codes(frozenset[int]):
        def isdisjoint(self, other: object) -> bool:
            nonlocal seen
            seen += 1
            return True

    same = MessageFilter(Codes({7}))
    for number in range(1000):
        table.park(str(number), message_filter=same)
    table.arrive(0, [8])
    assert seen == 1 and table.polls.count == 1000


def test_pulls_with_more_filters_than_the_limit_are_due_at_every_arrival() -> None:
    table = Table(count_max=QUEUE_FILTERS_MAX + 10)
    for number in range(QUEUE_FILTERS_MAX + 2):
        table.park(str(number), message_filter=MessageFilter(frozenset({number})))
    table.arrive(0, [-1])
    table.polls.wake()
    assert table.retried == [str(QUEUE_FILTERS_MAX), str(QUEUE_FILTERS_MAX + 1)]
    table.arrive(0, [5])
    table.polls.wake()
    assert table.retried[2:] == ["5"]


def test_a_record_test_sees_arrivals_before_and_after_its_slice_once_each_time() -> None:
    table = Table(count_max=100)

    def wants(record: memoryview) -> bool:
        raise AssertionError("the table doesn't look itself")

    table.park("a", message_filter=MessageFilter(accept=wants))
    table.arrive(0, [0], wants)
    table.arrive(0, [0])  # the look for the first arrival sees this one too
    table.polls.wake()
    assert table.looked == 1 and table.retried == ["a"]


def test_an_overdue_group_is_not_looked_at() -> None:
    table = Table()

    def wants(record: memoryview) -> bool:
        raise AssertionError("the table doesn't look itself")

    table.park("a", message_filter=MessageFilter(accept=wants), suspend_ms=1)
    table.arrive(0, [0])
    table.polls.wake_queue("T", 0)
    table.polls.wake()
    assert table.looked == 0 and table.retried == ["a"]


class Counted(dict[int, ParkedPull]):
    """Counts what is done with a group's pulls."""

    pop_count = 0
    walk_count = 0

    def pop(self, number: int, default: ParkedPull | None = None) -> ParkedPull | None:  # type: ignore[override]
        Counted.pop_count += 1
        return super().pop(number, default)

    def __iter__(self) -> Iterator[int]:
        Counted.walk_count += 1
        return super().__iter__()
