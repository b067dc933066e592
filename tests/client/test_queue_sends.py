"""QueueSends: order in each queue over failures, what is repeated and what ends it, and its limit of bytes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pymq.client import queue_sends
from pymq.client.outgoing import Outgoing
from pymq.client.queue_sends import QueueSends
from pymq.errors import NotFoundError, PymqError, RefusedError, UnreachableError
from pymq.model.message import MessageQueue
from pymq.wire.codes import ResponseCode

FIRST, SECOND = MessageQueue("t", "broker-a", 0), MessageQueue("t", "broker-a", 1)
BUSY = RefusedError(ResponseCode.SYSTEM_BUSY, "busy")
READ_ONLY = RefusedError(ResponseCode.NO_PERMISSION, "no permission")


class Broker:
    """Takes the place of what sends a request: stores it, after the failures that a test planned."""

    def __init__(self, failures: list[PymqError]) -> None:
        self.stored: dict[MessageQueue, list[bytes]] = {FIRST: [], SECOND: []}
        self.failures = failures
        self.under_way: dict[MessageQueue, int] = {}
        self.bytes_most = 0

    async def attempt(self, outgoing: Outgoing, queue: MessageQueue, _deadline: object) -> None:
        assert queue not in self.under_way, "one request at a time for each queue"
        self.under_way[queue] = len(outgoing.body)
        self.bytes_most = max(self.bytes_most, sum(self.under_way.values()))
        await asyncio.sleep(0)
        del self.under_way[queue]
        if self.failures:
            raise self.failures.pop(0)
        self.stored[queue].append(outgoing.body)


def send(bodies: list[bytes], failures: list[PymqError], monkeypatch: pytest.MonkeyPatch, **settings: Any) -> Broker:
    """Send each body to both queues."""
    monkeypatch.setattr(queue_sends, "PAUSE_FIRST_S", 0.0)
    broker = Broker(failures)

    async def scenario() -> None:
        sends = QueueSends("g", "127.0.0.1:1", **{"retry_budget_s": 60.0, **settings})
        monkeypatch.setattr(sends._sender, "attempt", broker.attempt)
        try:
            for body in bodies:
                await sends.put([(Outgoing("t", body, "", "", 0, 0, True), queue) for queue in (FIRST, SECOND)])
            await sends.flush()
        finally:
            await sends.stop()

    asyncio.run(scenario())
    return broker


def test_order_is_kept_over_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    bodies = [b"%d" % at for at in range(9)]
    failures = [BUSY, UnreachableError("away"), NotFoundError("no route"), UnreachableError("away")]
    assert send(bodies, failures, monkeypatch).stored == {FIRST: bodies, SECOND: bodies}


@pytest.mark.parametrize(
    ("error", "budget_s"),
    [
        (READ_ONLY, 60.0),
        (RefusedError(ResponseCode.MESSAGE_ILLEGAL, "too large"), 60.0),
        (UnreachableError("away"), 0.0),
    ],
)
def test_what_no_repetition_mends_ends_all(error: PymqError, budget_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    failures = [error]
    with pytest.raises(type(error)) as caught:
        send([b"%d" % at for at in range(9)], failures, monkeypatch, retry_budget_s=budget_s)
    assert caught.value is error and not failures


@pytest.mark.parametrize(("limit", "most"), [(9, 6), (10, 10), (4, 6)])
def test_bytes_in_flight_have_a_limit_that_one_request_may_exceed(
    limit: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = send([b"x" * 5, b"y" * 6], [], monkeypatch, in_flight_bytes_max=limit)
    assert broker.stored[FIRST] == broker.stored[SECOND] == [b"x" * 5, b"y" * 6] and broker.bytes_most == most
