"""ConnectionOwner: what a connection needs of its server, with the limits on sizes."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from pymq.net.memory_budget import MemoryBudget
from pymq.proxy.rpc.call import REQUEST_BYTES_MAX, RpcMethod
from pymq.proxy.rpc.request_room import RequestRoom


@dataclass(frozen=True, slots=True)
class RequestSizes:
    """The limits on what clients send. ``held_bytes_max``: of a connection's requests that are not whole, or not taken.

    A method may have a smaller limit on its request.
    """

    request_bytes_max: int = REQUEST_BYTES_MAX
    held_bytes_max: int = 2 * REQUEST_BYTES_MAX


class ConnectionOwner(Protocol):
    """A server, as its connections see it: a ``connection`` is an RpcConnection."""

    methods: Mapping[bytes, RpcMethod]
    sizes: RequestSizes
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
