"""A process that keeps its Admin asks unreached brokers again after a while."""

from __future__ import annotations

import asyncio

from pymq.client.admin.asking import Asking, BrokerTarget
from pymq.clock import ManualClock
from pymq.errors import UnreachableError
from pymq.operations.asking.retried import RETRY_AFTER_MS, Retried


def test_an_unreached_broker_is_forgotten_after_a_while() -> None:
    clock, unreached = ManualClock(), {"broker-a": "away"}
    retried = Retried(unreached, clock)
    retried.forget_old()
    clock.advance(RETRY_AFTER_MS - 1)
    retried.forget_old()
    assert unreached == {"broker-a": "away"}
    clock.advance(1)
    retried.forget_old()
    assert unreached == {}


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
