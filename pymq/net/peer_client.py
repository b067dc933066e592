"""PeerClient: one-way requests between servers that must not wait for a connection: what finds none is dropped."""

from __future__ import annotations

from pymq.net.client import RemotingClient
from pymq.wire.command import FLAG_ONEWAY, Command


class PeerClient(RemotingClient):
    """A client whose callers send again what matters, as Raft's do."""

    def has_room(self, address: str) -> bool:
        """Return True when a request to ``address`` can be written now. Without a connection one begins to open."""
        if address not in self._connections and address not in self._connecting and not self._closed:
            self._begin_connecting(address)
        return self.is_ready(address)

    def tell(self, address: str, command: Command) -> bool:
        """Write ``command`` if :meth:`has_room`, else drop it; return whether it was written."""
        if not self.has_room(address):
            return False
        command.flag |= FLAG_ONEWAY
        self._connections[address].send(command)
        return True

    def drop(self, address: str) -> None:
        """End the connection to ``address``, with what is still to be written there; the next request opens another."""
        connection = self._connections.get(address)
        if connection is not None:
            connection.abort("the peer was silent")
