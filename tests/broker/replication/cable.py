"""A network in memory: bytes wait until a test lets them through, in pieces of any size."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable

from pymq.wire.command import Command
from pymq.wire.streams import StreamHandler

Answerer = Callable[[Command], "Command | str"]


class End:
    """One end of a connection: a :class:`~pymq.wire.streams.Stream`. ``holds``: the peer takes nothing for now."""

    def __init__(self, cable: Cable, handler: StreamHandler, peer_address: str) -> None:
        self.peer_address = peer_address
        self.handler = handler
        self.holds = False
        self.sent = b""  # all that was written, for a test to look at
        self.unsent: deque[bytes] = deque()
        self.is_closed = False
        self.wants_writable = False
        self._cable = cable
        self.other: End

    @property
    def unsent_bytes(self) -> int:
        return sum(map(len, self.unsent))

    def write(self, data: bytes | memoryview) -> None:
        if not self.is_closed:
            self.sent += bytes(data)
            self.unsent.append(bytes(data))
            self._cable.later(self.flush)

    def want_writable(self) -> None:
        self.wants_writable = True
        self._cable.later(self._tell_writable)

    def flush(self) -> None:
        """Deliver the bytes that wait, unless the peer takes nothing."""
        while self.unsent and not self.holds:
            data = self.unsent.popleft()
            size = self._cable.piece_bytes or len(data)
            for at in range(0, len(data), size):
                if not self.other.is_closed:
                    self.other.handler.received(data[at : at + size])
        self._tell_writable()

    def release(self) -> None:
        self.holds = False
        self._cable.later(self.flush)

    def _tell_writable(self) -> None:
        if self.wants_writable and not self.unsent and not self.is_closed:
            self.wants_writable = False
            self.handler.writable()

    def close(self) -> None:
        """Close this end after delivering what was written before."""
        if not self.is_closed:
            self.is_closed = True
            self._cable.later(self._close)

    def _close(self) -> None:
        self.flush()
        self.handler.closed("it was closed here")
        if not self.other.is_closed:
            self.other.is_closed = True
            self.other.handler.closed("the peer closed it")

    def cut(self, why: str = "connection reset") -> None:
        """Break the connection for both ends."""
        if not self.is_closed:
            self.is_closed = self.other.is_closed = True
            self._cable.later(lambda: self.handler.closed(why))
            self._cable.later(lambda: self.other.handler.closed(why))


class Cable:
    """A :class:`~pymq.wire.streams.Network` whose events run when :meth:`settle` is called.

    ``piece_bytes``: writes arrive in pieces of so many bytes; None: as they were written.
    """

    def __init__(self) -> None:
        self.listeners: dict[str, Callable[[], StreamHandler]] = {}
        self.answerers: dict[str, Answerer] = {}
        self.asked: list[tuple[str, Command]] = []
        self.ends: list[tuple[End, End]] = []  # (who connected, who listened)
        self.piece_bytes: int | None = None
        self.hosts: deque[str] = deque()  # where the next connections come from; then 127.0.0.1
        self._events: deque[Callable[[], None]] = deque()
        self._ports = itertools.count(40001)

    def connect(self, address: str, handler: StreamHandler) -> None:
        self.later(lambda: self._connect(address, handler))

    def _connect(self, address: str, handler: StreamHandler) -> None:
        accept = self.listeners.get(address)
        if accept is None:
            handler.closed(f"no connection to {address}: is a broker running there?")
            return
        host = self.hosts.popleft() if self.hosts else "127.0.0.1"
        ours = End(self, handler, address)
        theirs = End(self, accept(), f"{host}:{next(self._ports)}")
        ours.other, theirs.other = theirs, ours
        self.ends.append((ours, theirs))
        theirs.handler.opened(theirs)
        ours.handler.opened(ours)

    def ask(self, address: str, command: Command, on_answer: Callable[[Command | str], None], timeout_ms: int) -> None:
        self.asked.append((address, command))
        answerer = self.answerers.get(address, lambda command: f"no connection to {address}")
        self.later(lambda: on_answer(answerer(command)))

    def later(self, event: Callable[[], None]) -> None:
        self._events.append(event)

    def settle(self) -> None:
        """Runs events until none is left."""
        while self._events:
            self._events.popleft()()
