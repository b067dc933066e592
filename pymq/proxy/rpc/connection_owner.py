"""ConnectionOwner: what a connection needs of its server."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from pymq.net.memory_budget import MemoryBudget
from pymq.proxy.rpc.call import RpcMethod
from pymq.proxy.rpc.request_room import RequestRoom


class ConnectionOwner(Protocol):
    """A server, as its connections see it: a ``connection`` is an RpcConnection."""

    methods: Mapping[bytes, RpcMethod]
    request_bytes_max: int
    held_bytes_max: int
    budget: MemoryBudget
    room: RequestRoom
    closed_for: Counter[str]
    work_s: Callable[[], float]

    @property
    def has_time(self) -> bool:
        """Whether a connection may work in this round of the event loop."""

    def note_work(self, took_s: float) -> None:
        """Hear how long a connection has worked."""

    def admit(self, connection: Any, transport: asyncio.BaseTransport) -> str | None:
        """Register a new connection. Return None, or the reason to close it at once."""

    def called(self, connection: Any) -> None:
        """Hear of a connection's first call."""

    def closed(self, connection: Any) -> None:
        """Hear that a connection has ended."""

    def later(self, connection: Any) -> None:
        """Let a connection work in a later turn."""
