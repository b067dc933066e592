"""Round robin and the back-off of failing brokers."""

from __future__ import annotations

import random
from typing import Any

import pytest

from pymq.client.queue_picker import BACK_OFF_FIRST_MS, BACK_OFF_MAX_MS, BrokerHealth, QueuePicker
from pymq.clock import ManualClock
from pymq.model.message import MessageQueue

QUEUES = [MessageQueue("T", broker, i) for broker in ("a", "b") for i in range(2)]


def setup() -> Any:
    clock = ManualClock()
    health = BrokerHealth(clock)
    return clock, health, QueuePicker(health, random.Random(1))


def test_queues_are_picked_round_robin() -> None:
    _, _, picker = setup()
    picked = [picker.pick("T", QUEUES) for _ in range(8)]
    assert sorted(picked[:4]) == QUEUES
    assert picked[:4] == picked[4:]


def test_each_topic_has_its_own_rotation() -> None:
    _, _, picker = setup()
    first = picker.pick("T", QUEUES)
    picker.pick("U", [MessageQueue("U", "a", 0)])
    second = picker.pick("T", QUEUES)
    assert QUEUES.index(second) == (QUEUES.index(first) + 1) % 4


def test_the_broker_to_avoid_is_avoided() -> None:
    _, _, picker = setup()
    assert {picker.pick("T", QUEUES, "a").broker_name for _ in range(6)} == {"b"}


def test_a_failed_broker_rests_and_comes_back() -> None:
    clock, health, picker = setup()
    health.failed("a")
    assert {picker.pick("T", QUEUES).broker_name for _ in range(6)} == {"b"}
    clock.advance(BACK_OFF_FIRST_MS)
    assert {picker.pick("T", QUEUES).broker_name for _ in range(6)} == {"a", "b"}


def test_each_failure_in_a_row_doubles_the_rest_up_to_a_limit() -> None:
    clock, health, _ = setup()
    for _ in range(3):
        health.failed("a")
    clock.advance(BACK_OFF_FIRST_MS * 4 - 1)
    assert not health.is_usable("a")
    clock.advance(1)
    assert health.is_usable("a")
    for _ in range(60):
        health.failed("a")
    clock.advance(BACK_OFF_MAX_MS)
    assert health.is_usable("a")


@pytest.mark.parametrize(
    ("took_ms", "rest_ms"), [(550, 2000), (1800, 5000), (3000, 6000), (5000, 10_000), (15_000, 30_000)]
)
def test_a_slow_broker_rests_as_long_as_with_rocketmqs_client(took_ms: int, rest_ms: int) -> None:
    clock, health, picker = setup()
    health.succeeded("a", took_ms - 1)
    health.succeeded("b", took_ms)
    clock.advance(rest_ms - 1)
    assert health.is_usable("a") and {picker.pick("T", QUEUES).broker_name for _ in range(6)} == {"a"}
    clock.advance(1)
    assert health.is_usable("b") and {picker.pick("T", QUEUES).broker_name for _ in range(6)} == {"a", "b"}


def test_success_clears_the_record() -> None:
    _, health, _ = setup()
    health.failed("a")
    health.succeeded("a")
    assert health.is_usable("a")


def test_a_broker_is_picked_even_when_all_rest() -> None:
    _, health, picker = setup()
    health.failed("a")
    health.failed("b")
    assert picker.pick("T", QUEUES, "a").broker_name == "b"
    assert picker.pick("T", QUEUES[:2], "a").broker_name == "a"
