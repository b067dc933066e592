"""The clock moved by hand, and the machine's."""

from __future__ import annotations

from datetime import UTC, timedelta, timezone

import pytest

from pymq.clock import CLOCK_JUMP_MAX_MS, CLOCK_UNSET_BEFORE_MS, Clock, GuardedClock, ManualClock, SystemClock


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


NOW_MS = 1_700_000_000_000
TEN_YEARS_MS = 10 * 365 * 24 * 3_600_000


class Machine:
    """A machine whose clocks a test moves."""

    def __init__(self, wall_ms: int = NOW_MS) -> None:
        self.wall_ms = wall_ms
        self.running_ms = 5
        self.clock = GuardedClock(lambda: self.wall_ms * 1_000_000, lambda: self.running_ms * 1_000_000)

    def let_pass(self, duration_ms: int) -> None:
        self.wall_ms += duration_ms
        self.running_ms += duration_ms


def test_a_wall_clock_that_jumps_far_ahead_is_not_believed_until_it_is_back() -> None:
    machine = Machine()
    machine.let_pass(1000)
    machine.wall_ms += TEN_YEARS_MS
    machine.let_pass(50)
    assert machine.clock.now_ms() == NOW_MS + 1050
    assert machine.clock.local_time().timestamp() * 1000 == NOW_MS + 1050
    assert "jumped 3650 days ahead (limit 1)" in str(machine.clock.problem)
    machine.wall_ms -= TEN_YEARS_MS
    assert machine.clock.now_ms() == NOW_MS + 1050 and machine.clock.problem is None


@pytest.mark.parametrize(("jump_ms", "is_believed"), [(CLOCK_JUMP_MAX_MS, True), (CLOCK_JUMP_MAX_MS + 1, False)])
@pytest.mark.parametrize("passed_ms", [0, 3_600_000, CLOCK_JUMP_MAX_MS, 9 * CLOCK_JUMP_MAX_MS])
def test_the_edge_of_a_jump_does_not_depend_on_how_long_the_broker_runs(
    jump_ms: int, is_believed: bool, passed_ms: int
) -> None:
    machine = Machine()
    machine.let_pass(passed_ms)
    machine.clock.now_ms()
    machine.wall_ms += jump_ms
    assert machine.clock.now_ms() == NOW_MS + passed_ms + (jump_ms if is_believed else 0)
    assert (machine.clock.problem is None) == is_believed


def test_a_wall_clock_that_runs_for_years_and_one_set_back_are_believed() -> None:
    machine = Machine()
    for _ in range(1000):
        machine.let_pass(CLOCK_JUMP_MAX_MS)
        assert machine.clock.now_ms() == machine.wall_ms
    machine.wall_ms -= TEN_YEARS_MS
    assert machine.clock.now_ms() == machine.wall_ms
    machine.wall_ms += TEN_YEARS_MS
    assert machine.clock.now_ms() == machine.wall_ms and machine.clock.problem is None


@pytest.mark.parametrize(
    ("start_ms", "is_believed"), [(CLOCK_UNSET_BEFORE_MS - 1, True), (CLOCK_UNSET_BEFORE_MS, False)]
)
def test_the_first_setting_of_a_clock_without_a_time_is_believed(start_ms: int, is_believed: bool) -> None:
    machine = Machine(start_ms)
    machine.wall_ms = NOW_MS
    assert (machine.clock.now_ms() == NOW_MS) == is_believed
    machine.wall_ms += TEN_YEARS_MS
    assert machine.clock.now_ms() != machine.wall_ms


def test_the_guarded_clock_is_the_machines() -> None:
    clock: Clock = GuardedClock()
    assert abs(clock.now_ms() - SystemClock().now_ms()) < 60_000 and clock.problem is None
    assert clock.local_time().utcoffset() == SystemClock().local_time().utcoffset()
    assert abs(clock.monotonic_ms() - SystemClock().monotonic_ms()) < 60_000
