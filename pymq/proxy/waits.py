"""Waits: the calls that wait for their first message. Each holds a request at a broker, so they are limited."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from pymq.proxy.protocol.names import Code
from pymq.proxy.refusals import ProxyRefusal

WAITING_PER_CLIENT_MAX = 1024


class Waits:
    """All waits of a proxy; :meth:`end` ends them."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()  # by client
        self._open: set[asyncio.Future[Any]] = set()
        self.is_ending = False

    @property
    def count(self) -> int:
        """The number of calls that wait."""
        return self._counts.total()

    def check(self, client_id: str) -> None:
        """Raise ProxyRefusal when a client may have no further call that waits."""
        if self._counts[client_id] >= WAITING_PER_CLIENT_MAX:
            text = f"{WAITING_PER_CLIENT_MAX} receives of client {client_id} wait already"
            raise ProxyRefusal(Code.TOO_MANY_REQUESTS, text)

    @asynccontextmanager
    async def one(self, client_id: str, waiting: asyncio.Future[Any]) -> AsyncIterator[None]:
        """Count a wait while the block runs; the end of all waits cancels ``waiting``. Raises ProxyRefusal."""
        self.check(client_id)
        self._counts[client_id] += 1
        self._open.add(waiting)
        if self.is_ending:
            waiting.cancel()
        try:
            yield
        finally:
            self._open.discard(waiting)
            self._counts[client_id] -= 1
            if not self._counts[client_id]:
                del self._counts[client_id]

    def end(self) -> None:
        """Let all calls end that wait, and let no more wait: the proxy stops."""
        self.is_ending = True
        for waiting in list(self._open):
            waiting.cancel()
