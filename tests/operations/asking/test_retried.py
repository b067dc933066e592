"""A process that keeps its Admin asks unreached brokers again after a while."""

from __future__ import annotations

import asyncio

import pytest

from pymq.client.admin.asking import Asking, BrokerTarget
from pymq.clock import ManualClock
from pymq.errors import UnreachableError
from pymq.operations.asking.retried import FIRST_RETRY_AFTER_MS, RETRY_AFTER_MS, Retried


def test_an_unreached_broker_is_forgotten_after_a_while() -> None:
    clock, unreached = ManualClock(), {"broker-a": "away"}
    retried = Retried(unreached, clock)
    retried.forget_old()
    clock.advance(FIRST_RETRY_AFTER_MS - 1)
    retried.forget_old()
    assert unreached == {"broker-a": "away"}
    clock.advance(1)
    retried.forget_old()
    assert unreached == {}


def _pause_ms(retried: Retried, unreached: dict[str, str], clock: ManualClock) -> int:
    """Return how long a broker is not asked that could not be reached just now."""
    unreached["broker-a"] = "away"
    retried.forget_old()
    begun_ms = clock.monotonic_ms()
    while unreached:
        clock.advance(500)
        retried.forget_old()
    return clock.monotonic_ms() - begun_ms


def test_each_try_that_fails_doubles_the_pause_up_to_the_longest() -> None:
    clock, unreached = ManualClock(), dict[str, str]()
    retried = Retried(unreached, clock)
    pauses_ms = [_pause_ms(retried, unreached, clock) for _ in range(7)]
    assert pauses_ms == [1000, 2000, 4000, 8000, 16_000, RETRY_AFTER_MS, RETRY_AFTER_MS]


@pytest.mark.parametrize(("reached_ms", "pause_ms"), [(RETRY_AFTER_MS - 1, 4000), (RETRY_AFTER_MS, 1000)])
def test_a_broker_that_was_reached_for_long_begins_with_the_first_pause(reached_ms: int, pause_ms: int) -> None:
    clock, unreached = ManualClock(), dict[str, str]()
    retried = Retried(unreached, clock)
    for _ in range(2):
        _pause_ms(retried, unreached, clock)
    clock.advance(reached_ms)
    retried.forget_old()
    assert _pause_ms(retried, unreached, clock) == pause_ms


def test_each_broker_has_its_own_while() -> None:
    clock, unreached = ManualClock(), {"broker-a": "away"}
    retried = Retried(unreached, clock, 100)
    retried.forget_old()
    clock.advance(60)
    unreached["broker-b"] = "away"
    retried.forget_old()
    clock.advance(60)
    retried.forget_old()
    assert unreached == {"broker-b": "away"}


def test_a_broker_that_is_away_again_waits_a_whole_while_again() -> None:
    clock, unreached = ManualClock(), {"broker-a": "away"}
    retried = Retried(unreached, clock, 100)
    retried.forget_old()
    clock.advance(100)
    retried.forget_old()
    unreached["broker-a"] = "still away"
    clock.advance(99)
    retried.forget_old()
    clock.advance(99)
    retried.forget_old()
    assert unreached == {"broker-a": "still away"}
    clock.advance(1)
    retried.forget_old()
    assert unreached == {}


def test_an_admin_asks_the_broker_again() -> None:
    clock, asking, asked = ManualClock(), Asking(is_partial=True), []
    retried = Retried(asking.unreached, clock, 100)
    targets = [BrokerTarget("broker-a", "c", "a:1"), BrokerTarget("broker-b", "c", "b:1")]

    async def ask(address: str) -> str:
        asked.append(address)
        if address == "b:1" and clock.monotonic_ms() < 100:
            raise UnreachableError("b:1 is away")
        return address

    async def round_of_questions() -> list[str]:
        retried.forget_old()
        return [answer for _, answer in await asking.each(targets, ask)]

    assert asyncio.run(round_of_questions()) == ["a:1"]
    assert asyncio.run(round_of_questions()) == ["a:1"]
    assert asked == ["a:1", "b:1", "a:1"], "one time-out, not one for each question"
    clock.advance(100)
    assert asyncio.run(round_of_questions()) == ["a:1", "b:1"]


def test_a_broker_that_came_back_earlier_is_no_error() -> None:
    clock, unreached = ManualClock(), {"broker-a": "away"}
    retried = Retried(unreached, clock, 100)
    retried.forget_old()
    unreached.clear()
    clock.advance(100)
    retried.forget_old()
    assert unreached == {}
