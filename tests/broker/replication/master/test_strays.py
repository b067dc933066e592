"""Strays: shown while they keep coming, and never more than a few."""

from __future__ import annotations

from pymq.broker.replication.master.strays import SHOWN_MS, STRAYS_MAX, Strays
from pymq.clock import ManualClock


def test_one_is_shown_for_a_minute_after_it_came_last() -> None:
    clock = ManualClock()
    strays = Strays(clock)
    strays.note(3, "10.0.0.3:10911", "another cluster")
    clock.advance(SHOWN_MS - 1)
    (state,) = strays.states()
    assert (state.broker_id, state.address, state.state) == (3, "10.0.0.3:10911", "refused")
    assert (state.problem, state.in_sync) == ("another cluster", False)
    strays.note(3, "10.0.0.3:10999", "another segment size")
    clock.advance(SHOWN_MS - 1)
    assert [state.problem for state in strays.states()] == ["another segment size"]
    clock.advance(1)
    assert strays.states() == []


def test_who_is_a_slave_now_is_no_stray() -> None:
    strays = Strays(ManualClock())
    strays.note(3, "10.0.0.3:10911", "another cluster")
    strays.note(-1, "10.0.0.3:40001", "garbage")
    strays.forget(3, "10.0.0.3:10911")
    assert [state.problem for state in strays.states()] == ["garbage"]


def test_so_many_are_kept() -> None:
    strays = Strays(ManualClock())
    for number in range(STRAYS_MAX + 1):
        strays.note(-1, f"10.0.0.{number}:1", "garbage")
    assert [state.address for state in strays.states()] == [f"10.0.0.{number}:1" for number in range(1, STRAYS_MAX + 1)]
