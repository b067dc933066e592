"""What replication sees of the network: byte streams to peers, and questions to them. No sockets here.

``pymq.net.streams`` has it on an event loop, the simulation on its own network.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from pymq.wire.command import Command


class Stream(Protocol):
    """One connection."""

    peer_address: str  # "host:port"

    @property
    def unsent_bytes(self) -> int:
        """Bytes given to :meth:`write` that wait inside this process."""
        ...

    def write(self, data: bytes | memoryview) -> None:
        """Sends, or keeps until the peer takes it; dropped when the stream is closed. ``data`` must not change."""
        ...

    def want_writable(self) -> None:
        """Asks for one call of the handler's ``writable``: later, never from inside this call, once little is unsent.

        At the next chance when little is unsent already: so that long work can be done in pieces.
        """
        ...

    def close(self) -> None:
        """Ends it; ``closed`` of its handler is called later, once."""
        ...


class StreamHandler(Protocol):
    """What happens on one connection. Called on the loop, never from inside one of the stream's own methods."""

    def opened(self, stream: Stream) -> None:
        """It is there: first of all."""
        ...

    def received(self, data: bytes) -> None:
        """Some bytes came, in order."""
        ...

    def writable(self) -> None:
        """Little is unsent any more; only after :meth:`Stream.want_writable`, once for each."""
        ...

    def closed(self, why: str) -> None:
        """It is gone, or could not be opened; the last call."""
        ...


class Network(Protocol):
    """The way to other processes."""

    def connect(self, address: str, handler: StreamHandler) -> None:
        """Opens a stream to "host:port"; ``handler`` is told of success or failure, later."""
        ...

    def ask(self, address: str, command: Command, on_answer: Callable[[Command | str], None], timeout_ms: int) -> None:
        """Sends a request; ``on_answer`` gets the response of whatever code, or why there is none. Later, once."""
        ...
