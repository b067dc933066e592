"""Members of consumer groups that join, leave, and die like a killed process."""

from __future__ import annotations

import asyncio
import random
from abc import ABC, abstractmethod

from pymq.client import PushConsumer, SimpleConsumer
from pymq.client.group_client import GroupClient
from pymq.model.record import StoredMessage
from tests.soak.ledger import Ledger

HANDLER_MAX_S = 0.002
PULL_COUNT_MAX = 32
POP_COUNT_MAX = 4
REBALANCE_INTERVAL_S = 1.0
COMMIT_INTERVAL_S = 0.5


class Member(ABC):
    """A member that writes to its group's ledger. Bodies are ``queue:number``."""

    client: GroupClient

    def __init__(self, name: str, ledger: Ledger, rng: random.Random) -> None:
        self.name = name
        self._ledger = ledger
        self._rng = rng

    @abstractmethod
    async def join(self) -> None:
        """Joins the group."""

    @abstractmethod
    async def leave(self) -> None:
        """Leaves as a client does that is stopped."""

    async def kill(self) -> None:
        """Ends all work and closes all sockets at once, as the system does for a killed process: no word to brokers."""
        instance = self.client._instance
        instance._running = False
        closing = asyncio.ensure_future(instance.remoting.close())
        for task in (tasks := list(instance._tasks)):
            task.cancel()
        await asyncio.gather(closing, *tasks, return_exceptions=True)

    async def handle(self, message: StoredMessage) -> None:
        """Handles a message for up to 2 ms."""
        queue, number = map(int, message.content().split(b":"))
        self._ledger.begin(self.name, queue, number)
        done = False
        try:
            await asyncio.sleep(self._rng.random() * HANDLER_MAX_S)
            done = True
        finally:
            self._ledger.end(queue, number, done=done)


class PushMember(Member):
    """A push consumer, orderly if its ledger is."""

    def __init__(self, name: str, ledger: Ledger, rng: random.Random, namesrv: str, topic: str) -> None:
        super().__init__(name, ledger, rng)
        self.client = self._consumer = PushConsumer(
            ledger.name,
            namesrv=namesrv,
            on_message=self._on_message,
            orderly=ledger.in_order,
            consume_from="first",
            cached_count_max=PULL_COUNT_MAX,
            pull_count_max=PULL_COUNT_MAX,
            rebalance_interval_s=REBALANCE_INTERVAL_S,
            commit_interval_s=COMMIT_INTERVAL_S,
        )
        self._consumer.subscribe(topic)

    async def _on_message(self, messages: list[StoredMessage]) -> None:
        for message in messages:
            await self.handle(message)

    async def join(self) -> None:
        await self._consumer.start()

    async def leave(self) -> None:
        await self._consumer.stop()


class PopMember(Member):
    """A loop over a simple consumer."""

    def __init__(
        self, name: str, ledger: Ledger, rng: random.Random, namesrv: str, topic: str, invisible_ms: int
    ) -> None:
        super().__init__(name, ledger, rng)
        self.client = self._consumer = SimpleConsumer(ledger.name, namesrv=namesrv)
        self._consumer.subscribe(topic)
        self._invisible_ms = invisible_ms
        self._loop: asyncio.Task[None] | None = None

    async def join(self) -> None:
        await self._consumer.start()
        self._loop = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        async for received in self._consumer.messages(POP_COUNT_MAX, invisible_ms=self._invisible_ms):
            await self.handle(received.message)

    async def leave(self) -> None:
        await self._end_loop()
        await self._consumer.stop()

    async def kill(self) -> None:
        await super().kill()
        await self._end_loop()

    async def _end_loop(self) -> None:
        assert self._loop is not None
        self._loop.cancel()
        await asyncio.gather(self._loop, return_exceptions=True)
