"""Inbox: what other nodes sent, until the end of the broker's turn, within limits."""

from __future__ import annotations

from pymq.broker.raft.outgoing import Part
from pymq.raft.messages import Message

INBOX_COUNT_MAX = 1024  # messages of one turn; beyond, they are dropped and come again
INBOX_BYTES_MAX = 16 << 20  # of the log, in them; one message alone may have more


class Inbox:
    """Messages in the order in which they came, and ``gone``: nodes at whose address nobody listens any more."""

    def __init__(self) -> None:
        self.gone: list[str] = []
        self._messages: list[Message | Part] = []
        self._size_bytes = 0

    def add(self, message: Message | Part) -> None:
        """Add a message, or drop it when there is no room."""
        size_bytes = len(message.data) if isinstance(message, Part) else 0
        if len(self._messages) >= INBOX_COUNT_MAX:
            return
        if size_bytes and self._size_bytes and self._size_bytes + size_bytes > INBOX_BYTES_MAX:
            return
        self._size_bytes += size_bytes
        self._messages.append(message)

    def take(self) -> list[Message | Part]:
        """Return the messages, once."""
        messages, self._messages, self._size_bytes = self._messages, [], 0
        return messages

    def take_gone(self) -> list[str]:
        """Return the nodes that are gone, once."""
        gone = self.gone[:]
        self.gone.clear()
        return gone
