"""Sessions: the clients that a proxy knows, with their settings. A silent one is forgotten. Pure logic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

from pymq.net.memory_budget import FREED_SHARE, GRPC_CLIENTS, MemoryBudget
from pymq.proxy.protocol.names import ClientType, Code
from pymq.proxy.refusals import ProxyRefusal
from pymq.security.gatekeeper import ProvenCall

SILENT_MS_MAX = 120_000  # without a heartbeat
SESSION_COUNT_MAX = 100_000
STRANGER_COUNT_MAX = 10_000
SESSION_BYTES = 2 * 1024  # that a session takes beside its settings
SETTINGS_SHARE = 4  # sessions get at most this part of the memory budget: a quarter


@dataclass(slots=True)
class Session:
    """A client: its own description, and the time of its last sign of life (monotonic ms)."""

    client_id: str
    settings: Any
    language: str
    version: str
    seen_ms: int
    host: str = ""  # from which it sent them
    size_bytes: int = 0  # that its settings take
    user: str = ""  # who sent the settings; empty where nobody checks users
    proven: ProvenCall | None = None  # of who sent them
    stream: object | None = None  # its Telemetry stream, as long as that is open
    joined: set[str] = field(default_factory=set)  # addresses of brokers that know it as a member of its group

    @property
    def is_consumer(self) -> bool:
        return bool(self.settings.HasField("subscription"))

    @property
    def is_push(self) -> bool:
        return self.settings.client_type in (ClientType.PUSH_CONSUMER, ClientType.LITE_PUSH_CONSUMER)

    @property
    def is_lite(self) -> bool:
        """True for a consumer that receives the lite topics that it subscribes to."""
        return self.settings.client_type in (ClientType.LITE_PUSH_CONSUMER, ClientType.LITE_SIMPLE_CONSUMER)

    @property
    def group(self) -> str:
        """Its consumer group; empty for a producer."""
        return str(self.settings.subscription.group.name) if self.is_consumer else ""

    @property
    def published_topics(self) -> list[str]:
        """The topics for which it can say how a transaction ended."""
        return [topic.name for topic in self.settings.publishing.topics]


class Strangers:
    """Clients that are alive by their heartbeats, but have sent no settings.

    Python's and Go's clients are such for 5 to 10 minutes after a restart of the server: they send their settings on a
    timer only. A client id belongs to the user whose heartbeat came first, until it falls silent.
    """

    def __init__(self) -> None:
        self._by_id: dict[str, tuple[str, int]] = {}  # user, and when it was heard last

    def heard(self, client_id: str, user: str, now_ms: int) -> None:
        """Note a heartbeat. Beyond the limit a further client stays unknown."""
        known = self._by_id.get(client_id)
        if known[0] == user if known is not None else len(self._by_id) < STRANGER_COUNT_MAX:
            self._by_id[client_id] = (user, now_ms)

    def knows(self, client_id: str, user: str) -> bool:
        """Whether this user's client has sent heartbeats."""
        known = self._by_id.get(client_id)
        return known is not None and known[0] == user

    def forget_others(self, users: Collection[str]) -> None:
        """Forget the clients of users that are gone."""
        self._by_id = {each: known for each, known in self._by_id.items() if known[0] in users}

    def silent(self, now_ms: int) -> list[str]:
        """Forget sessions that were silent for too long, and return their client ids."""
        found = [each for each, (_, seen_ms) in self._by_id.items() if now_ms - seen_ms >= SILENT_MS_MAX]
        for each in found:
            del self._by_id[each]
        return found

    def remove(self, client_id: str) -> None:
        """Forget a client that has sent settings meanwhile."""
        self._by_id.pop(client_id, None)


class Sessions:
    """All sessions, by client id.

    Together they get a share of the memory budget. Beyond it the host goes first whose clients take most: those without
    a stream, and then the largest. So many clients of one host don't push out those of others.
    """

    def __init__(self, budget: MemoryBudget | None = None) -> None:
        self.on_evicted: Callable[[Session], None] = _ignore  # is called for each session that had to go
        self.strangers = Strangers()
        self._budget = budget or MemoryBudget()
        self._by_id: dict[str, Session] = {}
        self._by_host: dict[str, dict[str, Session]] = {}
        self._bytes_by_host: Counter[str] = Counter()
        self._size_bytes = 0

    def __len__(self) -> int:
        return len(self._by_id)

    @property
    def size_bytes(self) -> int:
        """What all of them take."""
        return self._size_bytes

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
        self.remove(session.client_id)
        self.strangers.remove(session.client_id)
        self._by_id[session.client_id] = session
        self._by_host.setdefault(session.host, {})[session.client_id] = session
        self._count(session, session.size_bytes + SESSION_BYTES)
        limit_bytes = self._budget.limit_bytes // SETTINGS_SHARE
        if self._size_bytes > limit_bytes:
            self._evict(self._size_bytes - limit_bytes + limit_bytes // FREED_SHARE)
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
        session = self._by_id.pop(client_id, None)
        if session is not None:
            of_host = self._by_host[session.host]
            del of_host[client_id]
            if not of_host:
                del self._by_host[session.host]
            self._count(session, -session.size_bytes - SESSION_BYTES)
        return session

    def silent(self, now_ms: int) -> list[Session]:
        """Forget the clients that were silent for too long, and return them."""
        found = [each for each in self._by_id.values() if now_ms - each.seen_ms >= SILENT_MS_MAX]
        for each in found:
            self.remove(each.client_id)
        return found

    def _count(self, session: Session, size_bytes: int) -> None:
        self._size_bytes += size_bytes
        self._budget.hold(GRPC_CLIENTS, size_bytes)
        self._bytes_by_host[session.host] += size_bytes
        if not self._bytes_by_host[session.host]:
            del self._bytes_by_host[session.host]

    def _evict(self, excess_bytes: int) -> None:
        """Forget clients until so much is free."""
        queues: dict[str, list[Session]] = {}
        while excess_bytes > 0 and self._bytes_by_host:
            host = max(self._bytes_by_host, key=self._bytes_by_host.__getitem__)
            if host not in queues:
                found = self._by_host[host].values()
                queues[host] = sorted(found, key=lambda each: (each.stream is None, each.size_bytes))
            session = queues[host].pop()
            excess_bytes -= session.size_bytes + SESSION_BYTES
            self.remove(session.client_id)
            self.on_evicted(session)


def _ignore(session: Session) -> None:
    """Until somebody wants to hear of it."""


def check_owner(session: Session, user: str) -> None:
    """Raise ProxyRefusal (FORBIDDEN) when another user sent the settings of this client id."""
    if session.user != user:
        text = f"client {session.client_id} belongs to another user than {user}: take another client id"
        raise ProxyRefusal(Code.FORBIDDEN, text)
