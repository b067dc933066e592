"""Hands a push consumer's messages to ``async for`` loops, and a loop's verdict back to the consumer.

A message is acknowledged when its loop asks for the next one. A loop that is left early gives its message back.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from pymq.client.consume_result import ConsumeResult
from pymq.errors import PymqError
from pymq.model.record import StoredMessage


class UnhandledError(PymqError):
    """The consumer stops before a loop was done with a message: its offset is not committed, so it comes again."""


@dataclass(slots=True)
class _Offer:
    message: StoredMessage
    verdict: asyncio.Future[ConsumeResult]
    taker: object = None  # what runs the loop: a task or a thread


class Handover:
    """The handler of a consumer that is iterated: each call waits until a loop is done with its message."""

    def __init__(self) -> None:
        self._untaken: deque[_Offer] = deque()
        self._open: dict[int, _Offer] = {}  # by the identity of the message, also offers that are taken
        self._changed = asyncio.Condition()
        self._ended = False
        self._error: PymqError | None = None

    async def handle(self, messages: list[StoredMessage]) -> ConsumeResult:
        """Offer a message to the loops and return the verdict of the one that takes it. Raises UnhandledError."""
        (message,) = messages
        if self._ended:
            raise UnhandledError("the consumer stops")
        offer = _Offer(message, asyncio.get_running_loop().create_future())
        self._open[id(message)] = offer
        self._untaken.append(offer)
        try:
            async with self._changed:
                self._changed.notify()
            return await offer.verdict
        finally:
            del self._open[id(message)]
            if offer in self._untaken:
                self._untaken.remove(offer)

    def settle(self, message: StoredMessage, result: ConsumeResult) -> None:
        """End the call that waits for ``message``. Twice, or after its time-out, changes nothing."""
        offer = self._open.get(id(message))
        if offer is not None and not offer.verdict.done():
            offer.verdict.set_result(result)

    async def end(self, error: PymqError | None) -> None:
        """End each loop when it asks for its next message, with ``error`` if there is one."""
        self._ended, self._error = True, error
        for offer in self._untaken:
            _leave(offer)
        self._untaken.clear()
        async with self._changed:
            self._changed.notify_all()

    def leave(self, taker: object) -> None:
        """Leave the message of ``taker`` as it is: it stops the consumer from within its loop."""
        for offer in self._open.values():
            if offer.taker == taker:
                _leave(offer)

    async def messages(self, taker: object = None) -> AsyncGenerator[StoredMessage, None]:
        """Yield messages until the consumer stops. ``taker``: what runs the loop, by default the current task."""
        while True:
            async with self._changed:
                while not self._untaken and not self._ended:
                    await self._changed.wait()
                if self._ended:
                    break
                offer = self._untaken.popleft()
            offer.taker = taker or asyncio.current_task()
            try:
                yield offer.message
            except GeneratorExit:
                self.settle(offer.message, ConsumeResult.RECONSUME_LATER)
                raise
            self.settle(offer.message, ConsumeResult.SUCCESS)
        if self._error is not None:
            raise self._error


def _leave(offer: _Offer) -> None:
    if not offer.verdict.done():
        offer.verdict.set_exception(UnhandledError("the consumer stops"))
