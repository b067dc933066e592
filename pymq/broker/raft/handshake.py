"""Handshake: two members agree on a session, so that no message of an earlier start is one of the present.

A node that starts says Hello to each other one, with a nonce. The answer is a Welcome with that nonce and a count that
grows. All other messages rest on it: their proof has a key that follows from the secret, both sessions and the count.
A receiver takes the session of the newest count, and each number in it once. So what was recorded before is refused:
after a restart of its receiver the key is another one, after one of its sender the count is too low.
"""

from __future__ import annotations

import hmac
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated

import msgspec

from pymq.broker.raft.secret_file import Secrets
from pymq.raft.messages import Message

SESSION_BITS = 64
NONCE_BITS = 128
WINDOW_COUNT_MAX = 64  # how far a message may be overtaken by later ones of its sender
# A number, or a count of welcomes, may be so far beyond the last one: a sender counts what it sends, also what is lost.
STEP_MAX = 1 << 32
MESSAGES, LOG_BYTES = 0, 1  # lanes: each has a connection, and numbers, of its own
_HANDSHAKE_LABEL = b"PyMQ Raft handshake 1\0"
_SESSION_LABEL = b"PyMQ Raft session 1\0"
_NAMES_MAX = 64  # sessions whose keys are remembered


@dataclass(frozen=True, slots=True)
class Hello(Message):
    """Let us begin a session. ``nonce`` shows that the answer is to this one."""

    nonce: Annotated[str, msgspec.Meta(pattern=f"^[0-9a-f]{{{NONCE_BITS // 4}}}$")]


@dataclass(frozen=True, slots=True)
class Welcome(Message):
    """The answer. ``count`` numbers the answers of its sender since its start."""

    nonce: Annotated[str, msgspec.Meta(pattern=f"^[0-9a-f]{{{NONCE_BITS // 4}}}$")]
    count: int


@dataclass(slots=True)
class _Window:
    """The numbers of one lane of a session that came: ``newest``, and a bit for each of the window before it."""

    newest: int = 0
    seen: int = 0

    def why_not(self, number: int) -> str:
        """Return why a message with this number came before, or can't be yet; empty for a new one."""
        if number > self.newest + STEP_MAX:
            return f"its number is {number}, and {self.newest} was the last: the limit is {STEP_MAX} more"
        if number > self.newest:
            return ""
        if self.newest - number >= WINDOW_COUNT_MAX:
            return f"its number is {number}, and {self.newest} came already: the limit is {WINDOW_COUNT_MAX} in between"
        return f"number {number} of its session came already" if self.seen >> (self.newest - number) & 1 else ""

    def note(self, number: int) -> None:
        ahead = max(number - self.newest, 0)
        # A greater step leaves nothing of the window; shifting by it would make a number of that many bits.
        self.seen = self.seen << ahead & (1 << WINDOW_COUNT_MAX) - 1 if ahead < WINDOW_COUNT_MAX else 0
        self.newest += ahead
        self.seen |= 1 << (self.newest - number)


@dataclass(slots=True)
class _Outgoing:
    """What this node says to another one. ``session`` and ``welcome`` are that one's; empty and 0 before a Welcome."""

    session: str = ""
    welcome: int = 0
    nonce: str = ""  # of the Hello that waits for an answer
    key: bytes = b""
    numbers: list[int] = field(default_factory=lambda: [0, 0])


@dataclass(slots=True)
class _Incoming:
    """What another node says to this one, in its newest session; ``first`` and ``newest`` are counts of welcomes."""

    session: str
    first: int
    newest: int
    windows: tuple[_Window, _Window] = field(default_factory=lambda: (_Window(), _Window()))


class Sessions:
    """The sessions of one node with the others, by node id. A start of the node is one session of its own."""

    def __init__(
        self, *, cluster: str, group: str, node_id: str, secrets: Callable[[], Secrets], rng: random.Random
    ) -> None:
        """``secrets`` returns the present ones; ``rng`` draws the session and nonces."""
        self.own = f"{rng.getrandbits(SESSION_BITS):016x}"
        self._place = msgspec.json.encode((cluster, group))
        self._node_id = node_id
        self._secrets = secrets
        self._rng = rng
        self._outgoing: dict[str, _Outgoing] = {}
        self._incoming: dict[str, _Incoming] = {}
        self._welcome_count = 0
        self._keys: dict[tuple[object, ...], list[bytes]] = {}

    def forget_keys(self) -> None:
        """Make keys of the present secrets: they have changed."""
        self._keys.clear()
        for outgoing in self._outgoing.values():
            outgoing.key = b""

    def handshake_keys(self) -> list[bytes]:
        """Return the keys for proofs of Hello and Welcome, the one for our own first."""
        return self._keys_for((), lambda: b"".join((_HANDSHAKE_LABEL, self._place)))

    # -- what this node says ---------------------------------------------------------------------------------------

    def needs_hello(self, node: str) -> bool:
        """Return True when a Hello to this node has to be sent, or sent again."""
        outgoing = self._to(node)
        return not outgoing.session or bool(outgoing.nonce)

    def hello_nonce(self, node: str) -> str:
        """Return the nonce for a Hello, the same until it is answered."""
        outgoing = self._to(node)
        outgoing.nonce = outgoing.nonce or f"{self._rng.getrandbits(NONCE_BITS):032x}"
        return outgoing.nonce

    def on_welcome(self, node: str, session: str, welcome: Welcome) -> str:
        """Go on in the session that a node agrees to. Returns why it is no answer to our Hello; empty when it is."""
        outgoing = self._to(node)
        if not outgoing.nonce or not hmac.compare_digest(outgoing.nonce, welcome.nonce):
            return "it answers no Hello that waits for an answer"
        outgoing.session, outgoing.welcome, outgoing.nonce, outgoing.key = session, welcome.count, "", b""
        return ""

    def on_hello(self, node: str, session: str) -> int:
        """Return the count for the Welcome. A node that has started again since its last Welcome gets a Hello, too."""
        outgoing = self._to(node)
        if outgoing.session and outgoing.session != session:
            self.hello_nonce(node)
        self._welcome_count += 1
        return self._welcome_count

    def seal(self, node: str, lane: int) -> tuple[str, int, int, bytes] | None:
        """Return the node's session, the count, the number and the key for the next message to it.

        None before it has answered.
        """
        outgoing = self._to(node)
        if not outgoing.session:
            return None
        if not outgoing.key:
            content = self._session_content(self._node_id, node, self.own, outgoing.session, outgoing.welcome)
            outgoing.key = hmac.digest(self._secrets().first, content, "sha256")
        outgoing.numbers[lane] += 1
        return outgoing.session, outgoing.welcome, outgoing.numbers[lane], outgoing.key

    # -- what others say -------------------------------------------------------------------------------------------

    def why_over(self, node: str, session: str, welcome: int) -> str:
        """Return why a message rests on no session that can be the present one; empty when it may."""
        incoming = self._incoming.get(node)
        if not 0 < welcome <= self._welcome_count:
            return f"it rests on welcome {welcome}, and this node has given {self._welcome_count} since its start"
        if incoming is None or (incoming.session == session and welcome >= incoming.first):
            return ""
        if incoming.session == session or welcome <= incoming.newest:
            return f"it rests on welcome {welcome}, and the node is known by {incoming.newest} already"
        return ""

    def keys_of(self, node: str, session: str, welcome: int) -> list[bytes]:
        """Return the keys that prove a message of this session: one for each secret."""
        return self._keys_for(
            (node, session, welcome),
            lambda: self._session_content(node, self._node_id, session, self.own, welcome),
        )

    def why_replayed(self, node: str, session: str, welcome: int, lane: int, number: int) -> str:
        """Note a proven message. Returns why it came before, or can't be yet; empty for a new one."""
        incoming = self._incoming.get(node)
        if incoming is None or incoming.session != session:
            incoming = _Incoming(session, welcome, welcome)
            self._incoming[node] = incoming
        window = incoming.windows[lane]
        if why := window.why_not(number):
            return why
        window.note(number)
        incoming.newest = max(incoming.newest, welcome)
        return ""

    def _to(self, node: str) -> _Outgoing:
        return self._outgoing.setdefault(node, _Outgoing())

    def _session_content(self, sender: str, receiver: str, session: str, to_session: str, welcome: int) -> bytes:
        """Return what the key of one way of a session is made of, beside the secret."""
        about = msgspec.json.encode((sender, receiver, session, to_session, welcome))
        return b"".join((_SESSION_LABEL, self._place, about))

    def _keys_for(self, name: tuple[object, ...], content: Callable[[], bytes]) -> list[bytes]:
        """Return the keys with this name, one for each secret, made of the content at its first use."""
        keys = self._keys.get(name)
        if keys is None:
            if len(self._keys) >= _NAMES_MAX:
                self._keys.pop(next(iter(self._keys)))
            made = content()
            keys = self._keys[name] = [hmac.digest(secret, made, "sha256") for secret in self._secrets().accepted]
        return keys
