"""PeerClient: one-way requests between servers that must not wait for a connection: what finds none is dropped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from pymq.net.client import RemotingClient
from pymq.wire.command import FLAG_ONEWAY, Command


class PeerClient(RemotingClient):
    """A client whose callers send again what matters, as Raft's do.

    ``on_refused(address)`` is called when an address refuses a connection: its machine runs, and nobody listens there.
    """

    on_refused: Callable[[str], None] | None = None

    def has_room(self, address: str) -> bool:
        """Return True when a request to ``address`` can be written now. Without a connection one begins to open."""
        if address not in self._connections and address not in self._connecting and not self._closed:
            self._begin_connecting(address).add_done_callback(lambda task: self._note_refusal(address, task))
        return self.is_ready(address)

    def tell(self, address: str, command: Command) -> bool:
        """Write ``command`` if :meth:`has_room`, else drop it; return whether it was written."""
        if not self.has_room(address):
            return False
        command.flag |= FLAG_ONEWAY
        self._connections[address].send(command)
        return True

    def drop(self, address: str) -> None:
        """End the connection to ``address``, with what is still to be written there; the next request opens another.

        One that is still opening ends too: its machine may have come back since, and the attempt would not notice.
        """
        opening = self._connecting.get(address)
        if opening is not None:
            opening.cancel()
        connection = self._connections.get(address)
        if connection is not None:
            connection.abort("the peer was silent")

    def _note_refusal(self, address: str, task: asyncio.Task[object]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and isinstance(error.__cause__, ConnectionRefusedError) and self.on_refused is not None:
            self.on_refused(address)
