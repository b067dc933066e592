"""Failures make a key wait, each time longer."""

from __future__ import annotations

from pymq.clock import ManualClock
from pymq.console.people.waits import FIRST_WAIT_MS, KEY_COUNT_MAX, LONGEST_WAIT_MS, WINDOW_MS, Waits


def fail(waits: Waits, key: str, count: int) -> None:
    for _ in range(count):
        waits.fail(key)


def test_some_failures_are_free_and_then_a_key_waits() -> None:
    clock = ManualClock()
    waits = Waits(clock, 5)
    fail(waits, "ann", 4)
    assert not waits.must_wait("ann")
    waits.fail("ann")
    assert waits.must_wait("ann") and not waits.must_wait("bob")
    clock.advance(FIRST_WAIT_MS - 1)
    assert waits.must_wait("ann")
    clock.advance(1)
    assert not waits.must_wait("ann")


def test_each_wait_is_twice_as_long_up_to_an_hour() -> None:
    clock = ManualClock()
    waits = Waits(clock, 1)
    for number in range(20):
        waits.fail("ann")
        waits.fail("ann")  # while it waits: no longer
        expected_ms = min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2**number)
        clock.advance(expected_ms - 1)
        assert waits.must_wait("ann")
        clock.advance(1)
        assert not waits.must_wait("ann")


def test_slow_failures_are_free() -> None:
    clock = ManualClock()
    waits = Waits(clock, 3)
    for _ in range(10):
        fail(waits, "ann", 2)
        assert not waits.must_wait("ann")
        clock.advance(WINDOW_MS)


def test_a_success_forgets_failures_and_waits() -> None:
    waits = Waits(ManualClock(), 2)
    waits.fail("ann")
    waits.succeed("ann")
    waits.fail("ann")
    assert not waits.must_wait("ann")
    waits.succeed("nobody")


def test_so_many_keys_are_known() -> None:
    waits = Waits(ManualClock(), 1)
    for number in range(KEY_COUNT_MAX + 1):
        waits.fail(number)
    assert not waits.must_wait(0)
    assert waits.must_wait(1)
