"""The clock moved by hand, and the machine's."""

from __future__ import annotations

from datetime import UTC, timedelta, timezone

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


def test_local_time_follows_the_wall_clock_in_the_zone_given() -> None:
    clock = ManualClock(1_700_000_000_000, timezone(timedelta(hours=-3)))
    assert clock.local_time().isoformat() == "2023-11-14T19:13:20-03:00"
    clock.advance(3_600_000)
    assert clock.local_time().hour == 20
    assert ManualClock(1_700_000_000_000).local_time().isoformat() == "2023-11-14T22:13:20+00:00"


def test_the_machines_clocks() -> None:
    clock: Clock = SystemClock()
    assert abs(clock.local_time().timestamp() * 1000 - clock.now_ms()) < 60_000
    assert clock.local_time().utcoffset() == clock.local_time().astimezone(UTC).astimezone().utcoffset()
    assert clock.now_ms() > 1_700_000_000_000  # milliseconds, not seconds
    assert clock.now_ms() < 10**14  # not microseconds
    first = clock.monotonic_ms()
    assert clock.monotonic_ms() >= first
