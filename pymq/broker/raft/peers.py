"""Peers: the ways from a node to the others of its group: messages (9120), log bytes (9121), and reports (9122).

Messages and log bytes have a connection each, so that no vote and no heartbeat waits behind a megabyte. Nothing here is
promised: what finds no connection is dropped, and the core sends it again.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Protocol

from pymq.broker.raft.gate import Greeting, MessageGate
from pymq.broker.raft.members import GroupSettings
from pymq.broker.raft.outgoing import Part
from pymq.clock import Clock
from pymq.raft.messages import (
    AppendAnswer,
    Heartbeat,
    HeartbeatAnswer,
    Message,
    PreVoteAnswer,
    PreVoteRequest,
    VoteAnswer,
    VoteRequest,
)
from pymq.raft.state import Replica
from pymq.wire.codes import RequestCode
from pymq.wire.command import Command, request

# In election time-outs: then the connections to a peer that is silent, or answers nothing, are opened again. A pulled
# cable says nothing.
SILENT_TIMEOUTS_MAX = 3
SLOW_LINK_BYTES_PER_MS = 250  # log bytes may take so much longer to be answered
LENGTH = struct.Struct(">I")  # of the envelope in a request 9121, before the log bytes

_QUESTIONS = (PreVoteRequest, VoteRequest, Heartbeat)
_ANSWERS = (PreVoteAnswer, VoteAnswer, HeartbeatAnswer, AppendAnswer)


class Teller(Protocol):
    """:class:`pymq.net.peer_client.PeerClient`."""

    def has_room(self, address: str) -> bool: ...
    def tell(self, address: str, command: Command) -> bool: ...
    def drop(self, address: str) -> None: ...


class Peers:
    """The connections of one node. It is the driver's ``Connections``."""

    def __init__(
        self, group: GroupSettings, gate: MessageGate, clock: Clock, messages: Teller, log_bytes: Teller
    ) -> None:
        self.own = Replica(group.self_id, "")  # who says Hello
        self._addresses = {member.node: member.address for member in group.others}
        self._silent_max_ms = SILENT_TIMEOUTS_MAX * group.election_timeout_ms
        self._gate = gate
        self._clock = clock
        self._messages = messages
        self._log_bytes = log_bytes
        now_ms = clock.monotonic_ms()
        self._heard_ms = dict.fromkeys(self._addresses, now_ms)
        self._tried_ms = dict.fromkeys(self._addresses, now_ms)
        self._asked_ms: dict[str, int] = {}  # node -> when it was sent the oldest question that is without an answer
        self._due_ms: dict[str, int] = {}  # node -> until when it has to answer log bytes
        self._waiting: dict[Replica, None] = {}  # who has log bytes to get
        self._gone: set[str] = set()  # nodes whose port refused a connection since they were heard last
        self.next_part: Callable[[Replica], Part | None] = lambda to: None
        self.on_gone: Callable[[str], None] = lambda node: None

    def address_of(self, node: str) -> str:
        """Return where a node takes requests; empty for one that is not among the peers."""
        return self._addresses.get(node, "")

    def send(self, message: Message) -> None:
        address = self._addresses.get(message.to.node_id)
        if address is not None:
            if isinstance(message, _QUESTIONS):
                self._asked_ms.setdefault(message.to.node_id, self._clock.monotonic_ms())
            if (body := self._gate.encode(message)) is not None:
                self._tell(address, body)

    def welcome(self, greeting: Greeting) -> None:
        """Answer a Hello. The answer goes to the node's address, wherever the Hello came from."""
        if address := self._addresses.get(greeting.hello.sender.node_id):
            self._tell(address, self._gate.welcome(self.own, greeting.hello, greeting.session))

    def _tell(self, address: str, body: bytes) -> None:
        self._messages.tell(address, request(RequestCode.PYMQ_RAFT_MESSAGE, None, body))

    def wake(self, to: Replica) -> None:
        self._waiting[to] = None

    @property
    def has_waiting(self) -> bool:
        """True while log bytes wait for a connection with room."""
        return bool(self._waiting)

    def pump(self) -> None:
        """Send log bytes to each member whose connection has room."""
        for to in list(self._waiting):
            if self._pump(to):
                del self._waiting[to]

    def note_heard(self, message: Message) -> None:
        """Note that a message of another node came."""
        node = message.sender.node_id
        if isinstance(message, _ANSWERS):
            self._asked_ms.pop(node, None)
        if isinstance(message, AppendAnswer):
            self._due_ms.pop(node, None)
        if node in self._heard_ms:
            self._heard_ms[node] = self._clock.monotonic_ms()
            self._gone.discard(node)

    def reopen(self, address: str) -> None:
        """Open a connection for messages at once, where one ended: if it is refused, nobody is there any more."""
        self._messages.has_room(address)

    def note_refused(self, address: str) -> None:
        """Note that nobody listens at a node's address. ``on_gone(node)`` is called once, until it is heard again."""
        for node, its_address in self._addresses.items():
            if its_address == address and node not in self._gone:
                self._gone.add(node)
                self.on_gone(node)

    def is_gone(self, node: str) -> bool:
        """Return True when nobody listened at the node's address since it was heard last."""
        return node in self._gone

    def silent_ms(self, node: str) -> int:
        """Return for how long nothing came from a node."""
        return self._clock.monotonic_ms() - self._heard_ms[node]

    def tick(self) -> None:
        """Have a connection to every peer, also to one that this node rarely speaks to: followers ask each other for
        votes, once, and what finds no connection is lost.

        Open the connections again, now and then, to peers that are silent or answer nothing. A node that speaks may
        hear nothing: its messages come on a connection of its own.
        """
        now_ms = self._clock.monotonic_ms()
        for node, address in self._addresses.items():
            if self._messages.has_room(address) and self._gate.sessions.needs_hello(node):
                self._tell(address, self._gate.hello(self.own, node))
            heard_ms = min(self._heard_ms[node], self._asked_ms.get(node, now_ms))
            if now_ms - max(heard_ms, self._tried_ms[node]) > self._silent_max_ms:
                self._tried_ms[node] = now_ms
                self._messages.drop(address)
                self._drop_log_bytes(node, address)
            elif now_ms > self._due_ms.get(node, now_ms):
                self._drop_log_bytes(node, address)

    def _expect_answer(self, node: str, size_bytes: int) -> None:
        due_ms = self._due_ms.get(node, self._clock.monotonic_ms() + self._silent_max_ms)
        self._due_ms[node] = due_ms + size_bytes // SLOW_LINK_BYTES_PER_MS

    def _drop_log_bytes(self, node: str, address: str) -> None:
        self._due_ms.pop(node, None)
        self._log_bytes.drop(address)

    def _pump(self, to: Replica) -> bool:
        """Return True when nothing is left for this member."""
        address = self._addresses.get(to.node_id)
        if address is None:
            return True
        while self._log_bytes.has_room(address):
            part = self.next_part(to)
            if part is None:
                return True
            envelope = self._gate.encode(part.request, part.data)
            if envelope is None:
                continue
            body = b"".join((LENGTH.pack(len(envelope)), envelope, part.data))
            self._expect_answer(to.node_id, len(body))
            self._log_bytes.tell(address, request(RequestCode.PYMQ_RAFT_APPEND, None, body))
        return False
