"""Sessions: the clients that a proxy knows, with their settings. A silent one is forgotten. Pure logic."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pymq.proxy.protocol.names import ClientType, Code
from pymq.proxy.refusals import ProxyRefusal

SILENT_MS_MAX = 120_000  # without a heartbeat
SESSION_COUNT_MAX = 100_000


@dataclass(slots=True)
class Session:
    """A client: what it said of itself, and the time of its last sign of life (monotonic ms)."""

    client_id: str
    settings: Any
    language: str
    version: str
    seen_ms: int
    user: str = ""  # who sent the settings; empty where nobody checks users
    stream: object | None = None  # its Telemetry stream, as long as that is open
    joined: set[str] = field(default_factory=set)  # addresses of brokers that know it as a member of its group

    @property
    def is_consumer(self) -> bool:
        return bool(self.settings.HasField("subscription"))

    @property
    def is_push(self) -> bool:
        return bool(self.settings.client_type == ClientType.PUSH_CONSUMER)

    @property
    def group(self) -> str:
        """Its consumer group; empty for a producer."""
        return str(self.settings.subscription.group.name) if self.is_consumer else ""

    @property
    def published_topics(self) -> list[str]:
        """The topics for which it can say how a transaction ended."""
        return [topic.name for topic in self.settings.publishing.topics]


class Sessions:
    """All sessions, by client id."""

    def __init__(self) -> None:
        self._by_id: dict[str, Session] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def all(self) -> list[Session]:
        """Return all sessions."""
        return list(self._by_id.values())

    def find(self, client_id: str) -> Session | None:
        """Return a client's session; None for a client that sent no settings."""
        return self._by_id.get(client_id)

    def put(self, session: Session) -> bool:
        """Add or replace a session. Return False when there are too many."""
        if session.client_id not in self._by_id and len(self._by_id) >= SESSION_COUNT_MAX:
            return False
        self._by_id[session.client_id] = session
        return True

    def touch(self, client_id: str, user: str, now_ms: int) -> Session | None:
        """Note a sign of life. Return the session; None for a client that sent no settings.

        ``user``: who makes the call. Raises ProxyRefusal (FORBIDDEN) when another one sent the settings.
        """
        session = self._by_id.get(client_id)
        if session is not None:
            check_owner(session, user)
            session.seen_ms = now_ms
        return session

    def remove(self, client_id: str) -> Session | None:
        """Forget a client, and return its session."""
        return self._by_id.pop(client_id, None)

    def silent(self, now_ms: int) -> list[Session]:
        """Forget the clients that were silent for too long, and return them."""
        found = [each for each in self._by_id.values() if now_ms - each.seen_ms >= SILENT_MS_MAX]
        for each in found:
            del self._by_id[each.client_id]
        return found


def check_owner(session: Session, user: str) -> None:
    """Raises ProxyRefusal (FORBIDDEN) when another user sent the settings of this client id."""
    if session.user != user:
        text = f"client {session.client_id} belongs to another user than {user}: take another client id"
        raise ProxyRefusal(Code.FORBIDDEN, text)
