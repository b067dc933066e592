"""The network as replication sees it: byte streams and requests to peers. No sockets here.

``pymq.net.streams`` implements it on an event loop, the simulation on its own network.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from pymq.wire.command import Command


class Stream(Protocol):
    """One connection to a peer."""

    peer_address: str  # "host:port"

    @property
    def unsent_bytes(self) -> int:
        """The number of bytes given to :meth:`write` that still wait inside this process."""
        ...

    def write(self, data: bytes | memoryview) -> None:
        """Send ``data``, or keep it until the peer takes it. Drops it on a closed stream.

        ``data`` must not change.
        """
        ...

    def want_writable(self) -> None:
        """Ask for one call of the handler's ``writable`` when little is unsent.

        The call comes later, never from inside this one. It comes at the next opportunity when little is unsent
        already, so that long work can be done in pieces.
        """
        ...

    def close(self) -> None:
        """Close the connection. The handler's ``closed`` is called once, later."""
        ...


class StreamHandler(Protocol):
    """The events of one connection. Called on the loop, never from inside one of the stream's own methods."""

    def opened(self, stream: Stream) -> None:
        """The connection is open. This is the first call."""
        ...

    def received(self, data: bytes) -> None:
        """Bytes arrived, in order."""
        ...

    def writable(self) -> None:
        """Little is unsent now. Called once for each :meth:`Stream.want_writable`."""
        ...

    def closed(self, why: str) -> None:
        """The connection ended or could not be opened. This is the last call."""
        ...


class Network(Protocol):
    """Opens streams and sends requests to other processes."""

    def connect(self, address: str, handler: StreamHandler) -> None:
        """Open a stream to "host:port". ``handler`` learns of success or failure later."""
        ...

    def ask(self, address: str, command: Command, on_answer: Callable[[Command | str], None], timeout_ms: int) -> None:
        """Send a request.

        ``on_answer`` is called once, later, with the response (any code) or with why there is none.
        """
        ...
