"""ProxyService: all parts of a proxy without its port."""

from __future__ import annotations

from pymq.clock import Clock
from pymq.proxy.backend import Backend
from pymq.proxy.clients import Clients
from pymq.proxy.publishing import Publishing
from pymq.proxy.receipts import HeldMessages
from pymq.proxy.receiving import Receiving
from pymq.proxy.routing import Routing
from pymq.proxy.sessions import Session, Sessions
from pymq.proxy.transactions import OpenTransactions


class ProxyService:
    """Serves the clients of one proxy from ``backend``."""

    def __init__(self, backend: Backend, clock: Clock) -> None:
        self._clock = clock
        self.sessions = Sessions()
        self.held = HeldMessages()
        self.transactions = OpenTransactions()
        self.routing = Routing(backend)
        self.publishing = Publishing(backend, self.transactions, clock)
        self.receiving = Receiving(backend, self.sessions, self.held, clock)
        self.clients = Clients(backend, self.sessions, clock, self._left, self._seen)

    async def tick(self) -> None:
        """Do what is due: call it every second or so."""
        self.clients.forget_silent()
        self.transactions.forget_old(self._clock.monotonic_ms())
        await self.receiving.renew_due()

    def _seen(self, session: Session) -> None:
        """Note a sign of life."""

    def _left(self, session: Session) -> None:
        """Settle what a client leaves behind."""
        self.receiving.give_back_client(session.client_id)
