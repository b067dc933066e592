"""RpcCall: one call of a client, a stream of its connection. RpcMethod: what serves the calls of one path."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from pymq.net.futures import mark_seen
from pymq.proxy.inflating import in_thread
from pymq.proxy.rpc.field_count import count_fields, shape_of
from pymq.proxy.rpc.request_room import RequestRoom
from pymq.proxy.rpc.wire import IDENTITY, GrpcCode, GrpcError, Inflation, MessageParser

REQUEST_BYTES_MAX = 16 * 1024 * 1024
SMALL_BYTES_MAX = 64 * 1024  # a request of so many bytes is decoded at once: its fields are 32,768 at most
FIELDS_MAX = 131_072  # of a larger request, with those of messages within
FIELDS_HERE_MAX = 4_096  # that are counted on the event loop; the others in a thread
FIELD_BYTES = 64  # that a field takes once it is decoded, beside its content
WORK_FACTOR = 4  # while it is served, a request takes so many times its size
WAITING_REQUESTS_MAX = 64  # of a stream, that its handler has not taken

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class RpcMethod:
    """``handler(call, request)``, or ``handler(call, requests)`` if it takes a stream, which is an async iterator.

    It is a coroutine that returns the answer, or an async generator of answers, which is closed in the end. It raises
    GrpcError for a status. ``admit`` looks at a call's metadata before any of a request is kept: it returns the answers
    to a call that is refused, None for one that goes on, or raises GrpcError.
    """

    handler: Callable[[RpcCall, Any], Any]
    request_class: Any
    takes_stream: bool = False
    gives_stream: bool = False
    request_bytes_max: int = REQUEST_BYTES_MAX
    admit: Callable[[RpcCall], Sequence[Any] | None] | None = None


class CallOwner(Protocol):
    """What a call needs of its connection."""

    host: str

    @property
    def peer(self) -> str:
        """The client's "host:port"."""

    def now_s(self) -> float:
        """Return the time of a monotonic clock, in seconds."""

    def took(self, call: RpcCall) -> None:
        """Hear that a call's handler has taken all whole requests that came."""

    def wait_for_room(self, call: RpcCall, *, begins: bool) -> None:
        """Hear that a call's request begins, or ends, to wait for others."""

    def keep(self, call: RpcCall, size_bytes: int) -> None:
        """Count what is kept for a call until its end."""


class RpcCall:
    """One call, from its first frame to its status."""

    __slots__ = (
        "_encoding",
        "_owner",
        "_parser",
        "_room",
        "_running",
        "_served_bytes",
        "_waiter",
        "blocked_s",
        "context",
        "deadline_s",
        "held_bytes",
        "input_due_s",
        "is_begun",
        "is_input_over",
        "is_open",
        "kept_bytes",
        "metadata",
        "method",
        "refusal",
        "request_bytes_max",
        "room_bytes",
        "stream_id",
        "task",
        "unread_bytes",
        "waiting_bytes",
    )

    def __init__(
        self,
        owner: CallOwner,
        stream_id: int,
        method: RpcMethod,
        metadata: Mapping[str, str],
        encoding: bytes,
        deadline_s: float | None,
        input_due_s: float,
        request_bytes_max: int,
        room: RequestRoom,
    ) -> None:
        """``input_due_s``: when the request of a call that has one must be whole; ``room``: for large requests."""
        self.stream_id = stream_id
        self.method = method
        self.metadata = metadata
        self.deadline_s = deadline_s
        self.input_due_s = input_due_s
        self.request_bytes_max = request_bytes_max
        self.task: asyncio.Task[None] | None = None
        self.context: Any = None  # of the method's own
        # Answers in place of a handler's, or how the call ends once something of its request has come: to clients'
        # libraries an end before they have written anything is an error of the network.
        self.refusal: Sequence[Any] | GrpcError | None = None
        self.is_open = True  # frames may be sent on the stream
        self.is_input_over = False  # the client sends no more
        self.is_begun = False  # the head of the answer is sent
        self.held_bytes = 0  # that the client sent and the handler has not taken
        self.kept_bytes = 0  # for the call until its end: metadata, the request that is served, answers that wait
        self.unread_bytes = 0  # of the receive window that is not released yet
        self.room_bytes = 0  # of large requests, that this one has
        self.waiting_bytes = 0  # of a whole request that waits for room
        self.blocked_s = 0.0  # since when its answer waits for the client; 0: it does not
        self._served_bytes = 0  # of kept_bytes, for a request that is served
        self._owner = owner
        self._encoding = encoding
        self._room = room
        self._parser = MessageParser(request_bytes_max, WAITING_REQUESTS_MAX if method.takes_stream else 1)
        self._waiter: asyncio.Future[None] | None = None
        self._running: asyncio.Future[Any] | None = None  # a thread's work on the request

    @property
    def peer(self) -> str:
        """The client's "host:port"."""
        return self._owner.peer

    def keep(self, size_bytes: int) -> None:
        """Count what is kept for the call until its end."""
        self._owner.keep(self, size_bytes)

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
        is_compressed, data = found.popleft()
        if (is_compressed and self._encoding != IDENTITY) or len(data) > SMALL_BYTES_MAX:
            return await self._parsed(is_compressed, data)
        self._owner.keep(self, len(data))
        return self._decoded(data)

    async def requests(self) -> AsyncIterator[Any]:
        """Yield the requests of a stream as they come. Raises GrpcError."""
        while True:
            while self._parser.found:
                request = await self._parsed(*self._parser.found.popleft())
                if not self._parser.found:
                    self._owner.took(self)
                yield request
                del request  # not kept while the stream is idle
                self.leave_room()
                self._keep_served(-self._served_bytes)
            if self.is_input_over:
                if not self._parser.is_complete:
                    raise GrpcError(GrpcCode.INTERNAL, "the stream ends within a message")
                return
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter

    async def _parsed(self, is_compressed: bool, data: bytes) -> Any:
        """Return a request that may be large once it is decoded. Raises GrpcError."""
        if is_compressed and self._encoding != IDENTITY:
            data = await self._inflated(data)
        size_bytes = len(data)
        if size_bytes > SMALL_BYTES_MAX:
            if not self.room_bytes:
                # Large commands of streams are served one by one: what they say is copied, and goes on to brokers.
                await self._enter_room(self._room.size_bytes_max if self.method.takes_stream else size_bytes)
            await self._check_fields(data)
        self._keep_served(WORK_FACTOR * size_bytes)
        return self._decoded(data)

    def _keep_served(self, size_bytes: int) -> None:
        """Count what a request takes that is served."""
        self._served_bytes += size_bytes
        self._owner.keep(self, size_bytes)

    def _decoded(self, data: bytes) -> Any:
        try:
            return self.method.request_class.FromString(data)
        except Exception:  # the library has a class of its own for it, below none that is public
            raise self._no_request() from None

    def _no_request(self) -> GrpcError:
        return GrpcError(GrpcCode.INTERNAL, f"the request is no {self.method.request_class.DESCRIPTOR.name}")

    async def _inflated(self, data: bytes) -> bytes:
        """Return a compressed request's content: a large one from a thread, once there is room for the largest."""
        inflation = Inflation(data, self._encoding, self.request_bytes_max)
        content = inflation.inflate(SMALL_BYTES_MAX)
        if content is None:
            await self._enter_room(self.request_bytes_max)
            content = await self._in_thread(inflation.inflate_all)
        return content

    async def _check_fields(self, data: bytes) -> None:
        """Raise GrpcError for a request that has too many fields: they take more memory than their bytes."""
        shape = shape_of(self.method.request_class.DESCRIPTOR)
        try:
            count = count_fields(data, shape, FIELDS_HERE_MAX)
            if count > FIELDS_HERE_MAX:
                count = await self._in_thread(lambda: count_fields(data, shape, FIELDS_MAX))
        except ValueError:
            raise self._no_request() from None
        if count > FIELDS_MAX:
            text = f"the request has more than {FIELDS_MAX} fields, the limit: send less at once"
            raise GrpcError(GrpcCode.RESOURCE_EXHAUSTED, text)
        self._keep_served(FIELD_BYTES * count)

    async def _enter_room(self, size_bytes: int) -> None:
        self._owner.wait_for_room(self, begins=True)
        try:
            self.room_bytes = await self._room.enter(self._owner.host, size_bytes)
        finally:
            self._owner.wait_for_room(self, begins=False)

    async def _in_thread(self, work: Callable[[], Found]) -> Found:
        """Return what ``work`` returns. It goes on when the call ends meanwhile, and keeps its room."""
        running = self._running = in_thread(work)
        running.add_done_callback(mark_seen)
        return await asyncio.shield(running)

    def leave_room(self) -> None:
        """Let another large request be served, once no thread works on this one."""
        if self.room_bytes:
            size_bytes, self.room_bytes = self.room_bytes, 0
            if self._running is not None and not self._running.done():
                self._running.add_done_callback(lambda _: self._room.leave(size_bytes))
            else:
                self._room.leave(size_bytes)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
