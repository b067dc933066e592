"""RpcCall: one call of a client, a stream of its connection. RpcMethod: what serves the calls of one path."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from pymq.proxy.inflating import inflated_by
from pymq.proxy.rpc.wire import IDENTITY, GrpcCode, GrpcError, MessageParser, inflate


@dataclass(frozen=True, slots=True)
class RpcMethod:
    """``handler(call, request)``, or ``handler(call, requests)`` if it takes a stream, which is an async iterator.

    It is a coroutine that returns the answer, or an async generator of answers, which is closed in the end. It raises
    GrpcError for a status.
    """

    handler: Callable[[RpcCall, Any], Any]
    request_class: Any
    takes_stream: bool = False
    gives_stream: bool = False


class CallOwner(Protocol):
    """What a call needs of its connection."""

    peer: str

    def now_s(self) -> float:
        """Return the time of a monotonic clock, in seconds."""

    def took(self, call: RpcCall) -> None:
        """Hear that a call's handler has taken all whole requests that came."""


class RpcCall:
    """One call, from its first frame to its status."""

    __slots__ = (
        "_encoding",
        "_owner",
        "_parser",
        "_waiter",
        "deadline_s",
        "held_bytes",
        "is_begun",
        "is_input_over",
        "is_open",
        "metadata",
        "method",
        "request_bytes_max",
        "stream_id",
        "task",
        "unread_bytes",
    )

    def __init__(
        self,
        owner: CallOwner,
        stream_id: int,
        method: RpcMethod,
        metadata: Mapping[str, str],
        encoding: bytes,
        deadline_s: float | None,
        request_bytes_max: int,
    ) -> None:
        self.stream_id = stream_id
        self.method = method
        self.metadata = metadata
        self.deadline_s = deadline_s
        self.request_bytes_max = request_bytes_max
        self.task: asyncio.Task[None] | None = None
        self.is_open = True  # frames may be sent on the stream
        self.is_input_over = False  # the client sends no more
        self.is_begun = False  # the head of the answer is sent
        self.held_bytes = 0  # that the client sent and the handler has not taken
        self.unread_bytes = 0  # of the receive window that is not released yet
        self._owner = owner
        self._encoding = encoding
        self._parser = MessageParser(request_bytes_max)
        self._waiter: asyncio.Future[None] | None = None

    @property
    def peer(self) -> str:
        """The client's "host:port"."""
        return self._owner.peer

    def left_ms(self) -> float | None:
        """Return the time until the deadline; None for none."""
        return None if self.deadline_s is None else max((self.deadline_s - self._owner.now_s()) * 1000, 0.0)

    @property
    def has_request(self) -> bool:
        """Whether a whole request waits to be taken."""
        return bool(self._parser.found)

    def feed(self, data: bytes, size_bytes: int) -> None:
        """Take bytes of the client; ``size_bytes`` of its window. Raises GrpcError."""
        self.held_bytes += size_bytes
        self._parser.feed(data)
        if self._parser.found:
            self._wake()

    def end_input(self) -> None:
        """Hear that the client sends no more."""
        self.is_input_over = True
        self._wake()

    async def only_request(self) -> Any:
        """Return the request of a call that has one. All of its bytes are there. Raises GrpcError."""
        found = self._parser.found
        if len(found) != 1 or not self._parser.is_complete:
            raise GrpcError(GrpcCode.INTERNAL, f"the call has {len(found)} whole requests: send one")
        return await self._parsed(*found.popleft())

    async def requests(self) -> AsyncIterator[Any]:
        """Yield the requests of a stream as they come. Raises GrpcError."""
        while True:
            while self._parser.found:
                request = await self._parsed(*self._parser.found.popleft())
                if not self._parser.found:
                    self._owner.took(self)
                yield request
                del request  # not kept while the stream is idle
            if self.is_input_over:
                if not self._parser.is_complete:
                    raise GrpcError(GrpcCode.INTERNAL, "the stream ends within a message")
                return
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter

    async def _parsed(self, is_compressed: bool, data: bytes) -> Any:
        if is_compressed and self._encoding != IDENTITY:
            data = await inflated_by(inflate, data, self._encoding, self.request_bytes_max)
        try:
            return self.method.request_class.FromString(data)
        except Exception:  # the library has a class of its own for it, below none that is public
            name = self.method.request_class.DESCRIPTOR.name
            raise GrpcError(GrpcCode.INTERNAL, f"the request is no {name}") from None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
