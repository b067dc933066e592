"""Brokers that refuse: silent for commands, an error for pages that lead to a log-in."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pymq.errors import PymqError, RefusedError, UnreachableError
from pymq.operations.broker import listing
from pymq.operations.broker.listing import list_brokers
from pymq.operations.replica_view import BrokerView, why_none_answered
from pymq.wire.bodies_replication import ReplicationStatus

UNPROVEN = RefusedError(16, "username cannot be null.")
NO_RIGHT = RefusedError(16, "User:reader has no permission to access Cluster:east")
UP = ReplicationStatus(cluster="east", broker_name="a", broker_id=0, role="ASYNC_MASTER", address="h:0")


def views(*answers: ReplicationStatus | PymqError) -> list[BrokerView]:
    return [
        BrokerView("east", f"broker-{number}", 0, f"h:{number}", answer)
        if isinstance(answer, ReplicationStatus)
        else BrokerView(
            "east",
            f"broker-{number}",
            0,
            f"h:{number}",
            error=str(answer),
            refusal=answer if isinstance(answer, RefusedError) else None,
        )
        for number, answer in enumerate(answers)
    ]


def listed(
    monkeypatch: pytest.MonkeyPatch, *answers: ReplicationStatus | PymqError, may_refuse: bool
) -> dict[str, str]:
    found = views(*answers)

    async def registered(admin: Any) -> list[BrokerView]:
        return found

    async def ask(admin: Any, chosen: list[BrokerView]) -> list[BrokerView]:
        return chosen

    monkeypatch.setattr(listing, "brokers", registered)
    monkeypatch.setattr(listing, "ask", ask)
    _, silent = asyncio.run(list_brokers(None, None, may_refuse=may_refuse))  # type: ignore[arg-type]
    return silent


@pytest.mark.parametrize("answers", [(UNPROVEN,), (UP, UNPROVEN), (NO_RIGHT,), (UnreachableError("gone"), NO_RIGHT)])
def test_a_refusal_is_silence_or_an_error(
    monkeypatch: pytest.MonkeyPatch, answers: tuple[ReplicationStatus | PymqError, ...]
) -> None:
    assert listed(monkeypatch, *answers, may_refuse=True)
    with pytest.raises(RefusedError):
        listed(monkeypatch, *answers, may_refuse=False)


def test_one_broker_that_lacks_a_rule_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    assert listed(monkeypatch, UP, NO_RIGHT, may_refuse=False) == {"broker-1:0": str(NO_RIGHT)}
    assert listed(monkeypatch, UnreachableError("gone"), may_refuse=False) == {"broker-0:0": "gone"}


def test_the_reason_why_none_answered_is_the_first_ones() -> None:
    assert why_none_answered(views(UP, NO_RIGHT)) is NO_RIGHT
    error = why_none_answered(views(UnreachableError("gone"), NO_RIGHT))
    assert isinstance(error, UnreachableError) and str(error) == "broker-0: gone"
