"""Parked pulls: woken by a fitting arrival, by their deadline, never twice; the table is bounded."""

from __future__ import annotations

from types import SimpleNamespace

from pymq.broker.long_polls import COMPACT_SLACK_COUNT, SUSPEND_MAX_MS, LongPolls, ParkedPull
from pymq.clock import ManualClock
from pymq.wire.command import Command


class Table:
    """A LongPolls under a clock moved by hand that records which pulls were retried."""

    def __init__(self, count_max: int = 10) -> None:
        self.clock = ManualClock()
        self.retried: list[str] = []
        self.polls = LongPolls(self.clock, self._retry, count_max)

    def _retry(self, parked: ParkedPull) -> None:
        self.retried.append(parked.request.remark or "")

    def park(
        self,
        name: str,
        *,
        queue_id: int = 0,
        codes: frozenset[int] | None = None,
        suspend_ms: int = 1000,
        closed: bool = False,
    ) -> bool:
        header = SimpleNamespace(topic="T", queue_id=queue_id)
        return self.polls.park(SimpleNamespace(closed=closed), Command(11, remark=name), header, codes, suspend_ms)


def test_an_arrival_wakes_the_pulls_of_its_queue_only() -> None:
    table = Table()
    table.park("a")
    table.park("b", queue_id=1)
    table.polls.on_arrival("T", 0, [0])
    table.polls.wake()
    assert table.retried == ["a"]
    assert table.polls.count == 1


def test_a_tag_that_does_not_fit_leaves_the_pull_parked() -> None:
    table = Table()
    table.park("a", codes=frozenset({7}))
    table.polls.on_arrival("T", 0, [8, 9])
    table.polls.wake()
    assert table.retried == []
    table.polls.on_arrival("T", 0, [8, 7])
    table.polls.wake()
    assert table.retried == ["a"]


def test_the_deadline_answers_a_pull_once() -> None:
    table = Table()
    table.park("a", suspend_ms=500)
    table.clock.advance(499)
    table.polls.tick()
    assert table.retried == []
    table.clock.advance(1)
    table.polls.tick()
    table.polls.on_arrival("T", 0, [0])
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
    table.park("gone", closed=True)
    table.polls.on_arrival("T", 0, [0])
    table.polls.wake()
    assert table.retried == []
    assert table.polls.count == 0


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
        table.polls.on_arrival("T", 0, [0])
        table.polls.wake()
    assert len(table.polls._deadlines) <= COMPACT_SLACK_COUNT + 10
