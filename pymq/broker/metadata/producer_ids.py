"""ProducerIds: which connections produce under a client id, and which of them gets the replies to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from pymq.clock import Clock
from pymq.wire.dispatch import Peer


class Producer(Protocol):
    """A client on one connection, as its last heartbeat described it."""

    client_id: str
    peer: Peer

    @property
    def user(self) -> str:
        """The user's name; empty on a broker that checks nothing."""
        ...


@dataclass(slots=True)
class _Connection:
    user: str
    group_count: int = 0  # that it produces for


@dataclass(slots=True)
class _Id:
    owner: str  # the user that came first
    connections: dict[Peer, _Connection] = field(default_factory=dict)  # the newest comes last
    left_ms: int | None = None  # since when the owner has no connection, though others have


class ProducerIds:
    """Client ids of connected producers.

    Anyone may call itself by the id of another client. So an id is its first user's: connections of other users get no
    replies, until that user has had no connection for as long as a client may be silent.
    """

    def __init__(self, clock: Clock, silence_ms: Callable[[], int]) -> None:
        """``silence_ms``: for how long a client may be silent."""
        self._clock = clock
        self._silence_ms = silence_ms
        self._ids: dict[str, _Id] = {}

    def __len__(self) -> int:
        return len(self._ids)

    def join(self, client: Producer) -> None:
        """Note that ``client`` produces for one more group."""
        entry = self._ids.setdefault(client.client_id, _Id(client.user))
        connection = entry.connections.pop(client.peer, None) or _Connection(client.user)
        connection.group_count += 1
        entry.connections[client.peer] = connection
        if client.user == entry.owner:
            entry.left_ms = None

    def leave(self, client: Producer) -> None:
        """Note that ``client`` produces for one group less."""
        entry = self._ids[client.client_id]
        connection = entry.connections[client.peer]
        connection.group_count -= 1
        if connection.group_count:
            return
        del entry.connections[client.peer]
        if not entry.connections:
            del self._ids[client.client_id]
        elif entry.left_ms is None and not any(one.user == entry.owner for one in entry.connections.values()):
            entry.left_ms = self._clock.monotonic_ms()

    def peer(self, client_id: str) -> Peer | None:
        """Return the newest connection of the id's user; None when it has none."""
        entry = self._ids.get(client_id)
        if entry is None:
            return None
        if entry.left_ms is not None and self._clock.monotonic_ms() - entry.left_ms >= self._silence_ms():
            entry.owner, entry.left_ms = next(iter(entry.connections.values())).user, None
        owned = (peer for peer, one in reversed(entry.connections.items()) if one.user == entry.owner)
        return next(owned, None)
