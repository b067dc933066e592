"""Reception: what comes from other nodes, from the bytes of a request to the inbox of the turn."""

from __future__ import annotations

from collections.abc import Callable

from pymq.broker.raft.gate import REPLAYED, Greeting, MessageGate, Refused
from pymq.broker.raft.handshake import Welcome
from pymq.broker.raft.inbox import Inbox
from pymq.broker.raft.incoming import check_bytes, envelope_and_bytes
from pymq.broker.raft.outgoing import Part
from pymq.broker.raft.peers import Peers
from pymq.raft.messages import AppendRequest, Message


class Reception:
    """One node's. ``has_begun`` is true while there is a core that takes messages."""

    def __init__(
        self,
        gate: MessageGate,
        peers: Peers,
        inbox: Inbox,
        *,
        has_begun: Callable[[], bool],
        on_refused: Callable[[str, str], None],
    ) -> None:
        """``on_refused`` gets the text for operators, and the reason."""
        self._gate = gate
        self._peers = peers
        self._inbox = inbox
        self._has_begun = has_begun
        self._on_refused = on_refused

    def take_message(self, body: bytes | memoryview, host: str) -> None:
        """Take the body of a request 9120 from ``host`` (an IP address)."""
        if (message := self._admitted(body, host)) is not None:
            self._inbox.add(message)

    def take_bytes(self, body: bytes | memoryview, host: str) -> None:
        """Take the body of a request 9121: a message with bytes of the log. Raises ProtocolViolation."""
        envelope, data = envelope_and_bytes(body)
        message = self._admitted(envelope, host, data)
        if isinstance(message, AppendRequest):
            check_bytes(message, data)
            self._inbox.add(Part(message, bytes(data)))

    def _admitted(self, body: bytes | memoryview, host: str, data: bytes | memoryview = b"") -> Message | None:
        """Return a message for the core; None for one that is refused, or has had its effect."""
        taken = self._gate.take(body, host, data)
        if isinstance(taken, Refused):
            if taken.reason != REPLAYED:  # each start of a member leaves messages of its session before
                self._on_refused(taken.text, taken.reason)
            return None
        if isinstance(taken, Greeting):
            self._peers.welcome(taken)
            return None
        self._peers.note_heard(taken)
        return taken if self._has_begun() and not isinstance(taken, Welcome) else None
