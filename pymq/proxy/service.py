"""ProxyService: all parts of a proxy without its port."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from pymq.clock import Clock
from pymq.net.memory_budget import MemoryBudget
from pymq.proxy.backend import BEAT_MS, Backend
from pymq.proxy.clients import Clients
from pymq.proxy.conversion import timestamp_of
from pymq.proxy.lites import Lites
from pymq.proxy.orphans import Orphans
from pymq.proxy.publishing import Publishing
from pymq.proxy.pulling import Pulling
from pymq.proxy.questions import Questions
from pymq.proxy.receipts import HeldMessages
from pymq.proxy.receiving import Receiving
from pymq.proxy.routing import Routing
from pymq.proxy.sessions import Session, Sessions
from pymq.proxy.transactions import OpenTransactions
from pymq.proxy.waits import Waits

log = logging.getLogger(__name__)


class ProxyService:
    """Serves the clients of one proxy from ``backend``."""

    def __init__(self, backend: Backend, clock: Clock, budget: MemoryBudget | None = None) -> None:
        """``budget``: the process's memory, by default one of its own."""
        self._backend = backend
        self.clock = clock
        self.budget = budget or MemoryBudget()
        self._beat_at_ms = 0
        self._publishing: asyncio.Task[None] | None = None
        self.sessions = Sessions(self.budget)
        self.held = HeldMessages()
        self.transactions = OpenTransactions()
        self.routing = Routing(backend)
        self.publishing = Publishing(backend, self.transactions, clock)
        self.orphans = Orphans(backend, self.sessions, self.transactions, clock)
        self.waits = Waits()
        self.receiving = Receiving(backend, self.sessions, self.held, self.waits, clock)
        self.pulling = Pulling(backend, self.sessions, self.waits, clock)
        self.lites = Lites(backend, self.sessions, clock)
        backend.hear_unsubscribed(self.lites.unsubscribed)
        self.questions = Questions(self.sessions, clock)
        backend.hear_operators(self.questions.ask)
        self.clients = Clients(backend, self.sessions, clock, self._left, self._settled, self.questions.answered)
        self.sessions.on_evicted = self._evicted

    def now(self) -> Any:
        """Return the present as a Timestamp."""
        return timestamp_of(self.clock.now_ms())

    async def tick(self) -> None:
        """Do what is due: call it every second or so."""
        now_ms = self.clock.monotonic_ms()
        self.clients.forget_silent()
        self.transactions.forget_old(now_ms)
        if now_ms >= self._beat_at_ms:
            self._beat_at_ms = now_ms + BEAT_MS
            self._beat()
        await self.receiving.renew_due()

    def end_waits(self) -> None:
        """Let end what waits for something to happen: receives, and the streams of clients."""
        self.waits.end()
        self.clients.end_streams()

    async def stop(self) -> None:
        """Finish what is under way. Clients keep what they hold: any other proxy settles it."""
        if self._publishing is not None:
            self._publishing.cancel()
            await asyncio.gather(self._publishing, return_exceptions=True)
        await self.lites.stop()
        await self.receiving.stop()

    def _beat(self) -> None:
        for session in self.sessions.all():
            if session.is_consumer:
                self._backend.join(session)
        self._publish()

    def _publish(self) -> None:
        """Let brokers know the topics of connected producers."""
        if self._publishing is not None and not self._publishing.done():
            return
        topics = {topic for session in self.sessions.all() for topic in session.published_topics}
        if topics:
            work = self._backend.publish_for(topics, self.orphans.ask)
            self._publishing = asyncio.get_running_loop().create_task(work)

    def _settled(self, session: Session) -> None:
        """Let brokers know a client whose settings are new."""
        if session.is_consumer:
            self._backend.join(session)
        elif session.published_topics:
            self._publish()

    def _evicted(self, session: Session) -> None:
        """End the stream of a client whose settings take too much memory."""
        log.warning("client %s is forgotten: the settings of clients take too much memory", session.client_id[:200])
        self.clients.end_stream(session)
        self._left(session)

    def _left(self, session: Session) -> None:
        """Settle what a client leaves behind."""
        self.receiving.give_back_client(session.client_id)
        if session.is_lite:
            self.lites.left(session)
        if session.is_consumer:
            self._backend.leave(session)
