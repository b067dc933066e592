"""The clock moved by hand, and the machine's."""

from __future__ import annotations

import pytest

from pymq.clock import Clock, ManualClock, SystemClock


def test_a_manual_clock_stands_still_until_it_is_moved() -> None:
    clock = ManualClock(1000)
    assert (clock.now_ms(), clock.monotonic_ms()) == (clock.now_ms(), clock.monotonic_ms()) == (1000, 0)
    clock.advance(0)
    clock.advance(5)
    assert (clock.now_ms(), clock.monotonic_ms()) == (1005, 5)


@pytest.mark.parametrize("wall_ms", [0, 999, 2000])
def test_the_wall_clock_jumps_and_the_other_does_not(wall_ms: int) -> None:
    clock = ManualClock(1000)
    clock.advance(7)
    clock.set_wall(wall_ms)
    assert (clock.now_ms(), clock.monotonic_ms()) == (wall_ms, 7)


def test_monotonic_time_never_goes_back() -> None:
    with pytest.raises(AssertionError):
        ManualClock().advance(-1)


def test_the_machines_clocks() -> None:
    clock: Clock = SystemClock()
    assert clock.now_ms() > 1_700_000_000_000  # milliseconds, not seconds
    assert clock.now_ms() < 10**14  # not microseconds
    first = clock.monotonic_ms()
    assert clock.monotonic_ms() >= first
