"""Leaser: one consumer a queue, renewal, end, take-over."""

from __future__ import annotations

import pytest

from pymq.broker.metadata import leaser as leaser_module
from pymq.broker.metadata.leaser import Leaser
from pymq.clock import ManualClock
from pymq.config import load_broker_config
from pymq.model.message import MessageQueue

QUEUES = [MessageQueue("T", "broker-a", i) for i in range(3)]


def leaser() -> tuple[Leaser, ManualClock]:
    clock = ManualClock()
    return Leaser(clock=clock, config=load_broker_config()), clock


def test_a_queue_goes_to_one_client_of_a_group() -> None:
    leases, _ = leaser()
    assert leases.lock_batch("g", "a", QUEUES[:2]) == QUEUES[:2]
    assert leases.lock_batch("g", "b", QUEUES) == QUEUES[2:]
    assert leases.lock_batch("g", "a", QUEUES) == QUEUES[:2]
    assert leases.lock_batch("other", "b", QUEUES) == QUEUES
    assert leases.held_by("g", QUEUES[0]) == "a"


def test_a_lease_ends_without_renewal_and_can_be_taken_over() -> None:
    leases, clock = leaser()
    leases.lock_batch("g", "a", QUEUES)
    clock.advance(60_000)
    assert leases.lock_batch("g", "b", QUEUES) == []
    leases.lock_batch("g", "a", QUEUES[:1])
    clock.advance(1)
    assert leases.lock_batch("g", "b", QUEUES) == QUEUES[1:]
    assert leases.held_by("g", QUEUES[0]) == "a"


def test_the_wall_clock_does_not_end_a_lease() -> None:
    leases, clock = leaser()
    leases.lock_batch("g", "a", QUEUES)
    clock.set_wall(clock.now_ms() + 3_600_000)
    assert leases.held_by("g", QUEUES[0]) == "a"


def test_only_the_holder_gives_a_lease_up() -> None:
    leases, _ = leaser()
    leases.lock_batch("g", "a", QUEUES)
    leases.unlock_batch("g", "b", QUEUES)
    assert leases.held_by("g", QUEUES[0]) == "a"
    leases.unlock_batch("g", "a", QUEUES)
    assert leases.held_by("g", QUEUES[0]) is None and not leases.is_ordered("g")


def test_a_group_is_ordered_while_it_holds_a_lease() -> None:
    leases, clock = leaser()
    assert not leases.is_ordered("g")
    leases.lock_batch("g", "a", QUEUES[:1])
    assert leases.is_ordered("g")
    clock.advance(60_001)
    assert not leases.is_ordered("g")
    leases.tick()
    assert leases.lock_batch("g", "b", QUEUES) == QUEUES
    leases.forget_group("g")
    assert not leases.is_ordered("g")


def test_no_more_leases_than_the_limit_are_granted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaser_module, "LEASE_COUNT_MAX", 4)
    leases, clock = leaser()
    assert leases.lock_batch("g", "a", QUEUES) == QUEUES
    assert leases.lock_batch("h", "b", QUEUES) == QUEUES[:1]
    assert leases.lock_batch("g", "a", QUEUES) == QUEUES
    leases.unlock_batch("g", "a", QUEUES[:1])
    assert leases.lock_batch("h", "b", QUEUES) == QUEUES[:2]
    leases.forget_group("h")
    assert leases.lock_batch("h", "b", QUEUES) == QUEUES[:2]
    clock.advance(60_001)
    leases.tick()
    assert leases.lock_batch("i", "c", QUEUES) == QUEUES
