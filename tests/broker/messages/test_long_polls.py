"""Parked pulls: woken by a fitting arrival, by their deadline, never twice; the table is bounded."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from pymq.broker.messages.long_polls import COMPACT_SLACK_COUNT, SUSPEND_MAX_MS, LongPolls, ParkedPull
from pymq.broker.messages.message_filter import MessageFilter
from pymq.clock import ManualClock
from pymq.store.read.reading import Accept
from pymq.wire.command import Command

EVERYTHING = MessageFilter()
NAMES = "abc"


class Waiter:
    """The connection of a pull."""

    def __init__(self, closed: bool = False) -> None:
        self.closed = closed


class Table:
    """A LongPolls under a clock moved by hand that records which pulls were retried."""

    def __init__(self, count_max: int = 10) -> None:
        self.clock = ManualClock()
        self.retried: list[str] = []
        self.looked = 0
        self.polls = LongPolls(self.clock, self._retry, count_max)

    def _retry(self, parked: ParkedPull) -> None:
        self.retried.append(NAMES[parked.request.opaque])

    def arrive(self, queue_id: int, tags_codes: list[int], *accepted: Accept) -> None:
        """Let messages arrive in a queue. Only the filters in ``accepted`` accept them."""

        def any_accepted(accept: Accept) -> bool:
            self.looked += 1
            return accept in accepted

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
        """Park a pull of the name "a", "b" or "c"."""
        header = SimpleNamespace(topic="T", queue_id=queue_id)
        request = Command(11, opaque=NAMES.index(name), ext={"subscription": "x" * 1000}, body=bytes(1000))
        waiter: Any = peer or Waiter()
        return self.polls.park(waiter, request, header, message_filter, suspend_ms)


def test_an_arrival_wakes_the_pulls_of_its_queue_only() -> None:
    table = Table()
    table.park("a")
    table.park("b", queue_id=1)
    table.arrive(0, [0])
    table.polls.wake()
    assert table.retried == ["a"]
    assert table.polls.count == 1


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


def test_the_pulls_of_an_ended_connection_are_dropped_at_once() -> None:
    table = Table()
    gone, other = Waiter(), Waiter()
    table.park("a", peer=gone)
    table.park("b", peer=gone, queue_id=1)
    table.park("c", peer=other)
    ended: Any = gone
    table.polls.disconnect(ended)
    assert table.polls.count == 1
    assert not table.polls.is_waited_for("T", 1)
    table.polls.disconnect(ended)
    table.polls.release_all()
    assert table.retried == ["c"] and table.polls.count == 0


def test_a_parked_pull_keeps_no_body_and_no_fields_of_its_request() -> None:
    kept: list[ParkedPull] = []
    polls = LongPolls(ManualClock(), kept.append)
    peer: Any = Waiter()
    polls.park(
        peer, Command(11, opaque=7, ext={"a": "b"}, body=b"x"), SimpleNamespace(topic="T", queue_id=0), EVERYTHING, 1
    )
    polls.release_all()
    assert (kept[0].request.opaque, kept[0].request.ext, kept[0].request.body) == (7, {}, b"")


def test_release_all_answers_everything() -> None:
    table = Table()
    table.park("a")
    table.park("b", queue_id=3)
    table.polls.release_all()
    assert sorted(table.retried) == ["a", "b"]


def test_answered_pulls_do_not_pile_up() -> None:
    table = Table()
    for _ in range(COMPACT_SLACK_COUNT + 100):
        table.park("a", suspend_ms=SUSPEND_MAX_MS)
        table.arrive(0, [0])
        table.polls.wake()
    assert len(table.polls._deadlines) <= COMPACT_SLACK_COUNT + 10
