"""What clients do with a message while its receipt is being renewed: the broker forgets the handle before it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

from pymq.clock import ManualClock
from pymq.model import pop
from pymq.proxy.protocol.names import Code
from pymq.proxy.receipts import RENEW_AHEAD_MS, Handle, HeldMessages, encode_handle
from pymq.proxy.receiving import GIVE_BACK_MS, Receiving
from pymq.proxy.sessions import Sessions
from pymq.proxy.waits import Waits

INVISIBLE_MS = 60_000
CALL: Any = SimpleNamespace(client_id="c")
REQUEST = SimpleNamespace(topic=SimpleNamespace(name="T"), group=SimpleNamespace(name="g"))


class Broker:
    """Holds one message. Only its newest handle counts. A change waits until :attr:`may_answer` is set."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.newest = self._handle(INVISIBLE_MS)
        self.may_answer = asyncio.Event()
        self.settled: list[str] = []

    def _handle(self, invisible_ms: int) -> Handle:
        return Handle(pop.Receipt(5, self._clock.now_ms(), invisible_ms, 3, pop.NORMAL, "broker-a"), 2, 7, 123_456)

    async def change_invisible(self, topic: str, group: str, handle: Handle, invisible_ms: int) -> Handle:
        self._take(handle, f"again in {invisible_ms}" if invisible_ms == GIVE_BACK_MS else "")
        self.newest = self._handle(invisible_ms)
        await self.may_answer.wait()
        return self.newest

    async def ack(self, topic: str, group: str, handle: Handle) -> None:
        self._take(handle, "acknowledged")

    async def to_dead_letters(self, topic: str, group: str, handle: Handle, message_id: str) -> None:
        self._take(handle, "dead")

    def _take(self, handle: Handle, what: str) -> None:
        assert handle == self.newest, f"{what} with a handle that the broker has forgotten"
        self.settled += [what] if what else []


def during_a_renewal(act: Callable[[Receiving, str], Awaitable[Any]]) -> tuple[list[str], Any]:
    """Act while a renewal is under way. Return what became of the message at the broker, and the answer."""

    async def scenario() -> tuple[list[str], Any]:
        clock, held = ManualClock(), HeldMessages()
        broker: Any = Broker(clock)
        receiving = Receiving(broker, Sessions(), held, Waits(), clock)
        given = encode_handle(broker.newest)
        assert held.hold("c", "g", "T", broker.newest, clock.now_ms())
        clock.advance(INVISIBLE_MS - RENEW_AHEAD_MS)
        renewing = asyncio.create_task(receiving.renew_due())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        acting = asyncio.ensure_future(act(receiving, given))
        await asyncio.sleep(0)
        broker.may_answer.set()
        await renewing
        answer = await acting
        await receiving.drain()
        assert len(held) == 0
        return broker.settled, answer

    return asyncio.run(scenario())


def test_an_acknowledgement_waits_for_the_new_handle() -> None:
    def ack(receiving: Receiving, given: str) -> Awaitable[Any]:
        entry = SimpleNamespace(receipt_handle=given, message_id="m")
        return receiving.ack_message(CALL, SimpleNamespace(**vars(REQUEST), entries=[entry]))

    settled, answer = during_a_renewal(ack)
    assert settled == ["acknowledged"] and answer.status.code == Code.OK


def test_a_dead_letter_waits_for_the_new_handle() -> None:
    def give_up(receiving: Receiving, given: str) -> Awaitable[Any]:
        request = SimpleNamespace(**vars(REQUEST), receipt_handle=given, message_id="m")
        return receiving.forward_message_to_dead_letter_queue(CALL, request)

    settled, answer = during_a_renewal(give_up)
    assert settled == ["dead"] and answer.status.code == Code.OK


def test_what_a_client_leaves_comes_again_by_the_new_handle() -> None:
    async def leave(receiving: Receiving, given: str) -> None:
        receiving.give_back_client("c")

    assert during_a_renewal(leave)[0] == [f"again in {GIVE_BACK_MS}"]
