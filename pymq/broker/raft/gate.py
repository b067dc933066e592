"""MessageGate: which messages of request 9120 reach a node's core, and why the others do not.

The core trusts what it is given. So a message of another cluster or group, from a host where its sender is not, without
the group's proof, or that came before stays outside. Messages go one way, so a refused one is counted, not answered.
"""

from __future__ import annotations

import ipaddress
import random
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, TypeVar

from pymq.broker.raft.bodies import (
    SESSION_BITS,
    BodyError,
    Envelope,
    decode_envelope,
    decode_message,
    encode_message,
    is_proven,
)
from pymq.raft.messages import FoundRequest, Introduction, Message
from pymq.raft.state import Replica

# Reasons, as a counter's label.
FORMAT, FOREIGN, RECEIVER, SENDER, HOST, PROOF, REPLAYED = (
    "format", "foreign", "receiver", "sender", "host", "proof", "replayed"
)  # fmt: skip
REASONS = (FORMAT, FOREIGN, RECEIVER, SENDER, HOST, PROOF, REPLAYED)
HOSTS_REMEMBERED_MAX = 256  # whose one spelling is known
SENDERS_MAX = 64  # replicas whose numbers are remembered; the one that was silent longest is forgotten
SESSIONS_MAX = 8  # sessions of a replica whose numbers are remembered
WINDOW_COUNT_MAX = 64  # how far a message may be overtaken by later ones of its sender
K = TypeVar("K")
V = TypeVar("V")
# What a replica may say that does not know the group's founding id yet.
_UNPROVEN = frozenset({Introduction.__name__, FoundRequest.__name__})


class Refused(NamedTuple):
    """Why a message was refused: one of :data:`REASONS`, and a text for the log."""

    reason: str
    text: str


@dataclass(slots=True)
class _Window:
    """The numbers of one session that came: ``newest``, and a bit for each of the window before it."""

    newest: int = 0
    seen: int = 0

    def why_not(self, number: int) -> str:
        """Return why a message with this number came before, or comes too late; empty for a new one."""
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


class MessageGate:
    """Makes the bodies of one node's messages, and takes or refuses those of others."""

    def __init__(self, *, cluster: str, group: str, node_id: str, rng: random.Random) -> None:
        """``rng`` draws the session, in which the messages of this start are numbered."""
        self._cluster = cluster
        self._group = group
        self._node_id = node_id
        # Messages and log bytes go over connections of their own, so each have a session: none overtakes the other.
        self._sessions = {has_data: f"{rng.getrandbits(SESSION_BITS):016x}" for has_data in (False, True)}
        self._numbers = dict.fromkeys(self._sessions, 0)
        self._heard: OrderedDict[Replica, OrderedDict[str, _Window]] = OrderedDict()
        # The group's founding id, from the first membership that the core knows: set before the core's messages are
        # encoded, and after it took one.
        self.founded: bytes | None = None
        # Node id -> IP addresses that its messages come from: the configured peers', and the members'.
        self.hosts: Mapping[str, Collection[str]] = {}
        self.refused_count = dict.fromkeys(REASONS, 0)

    def encode(self, message: Message, data: bytes | memoryview = b"") -> bytes:
        """Return the body for a message of this node, with the proof for it and for the log bytes that go with it."""
        has_data = len(data) > 0
        self._numbers[has_data] += 1
        return encode_message(
            message,
            cluster=self._cluster,
            group=self._group,
            session=self._sessions[has_data],
            number=self._numbers[has_data],
            founded=self.founded,
            data=data,
        )

    def take(self, body: bytes | memoryview, host: str, data: bytes | memoryview = b"") -> Message | Refused:
        """Return the message in a body that came from ``host`` (an IP address), or why it is refused.

        ``data``: the log bytes that came with it.
        """
        try:
            envelope = decode_envelope(body)
            refused = self._foreign(envelope)
            taken = refused or self._checked(envelope, decode_message(envelope), host, data)
        except BodyError as error:
            taken = Refused(FORMAT, f"a message from {host}: {error}")
        if isinstance(taken, Refused):
            self.refused_count[taken.reason] += 1
        return taken

    def _foreign(self, envelope: Envelope) -> Refused | None:
        for what, theirs, ours in (
            ("brokerClusterName", envelope.cluster, self._cluster),
            ("dLegerGroup", envelope.group, self._group),
        ):
            if theirs != ours:
                return Refused(
                    FOREIGN,
                    f"a message of another group: its {what} is {theirs[:60]}, here it is {ours}; make them equal, or "
                    "take its sender out of dLegerPeers",
                )
        return None

    def _checked(self, envelope: Envelope, message: Message, host: str, data: bytes | memoryview) -> Message | Refused:
        sender = message.sender
        what = f"{envelope.kind} of {sender.node_id} (disk {sender.disk_id}) from {host}"
        if message.to.node_id != self._node_id:
            return Refused(RECEIVER, f"{what} is for {message.to.node_id}, this is {self._node_id}: check dLegerPeers")
        if sender.node_id == self._node_id:
            return Refused(
                SENDER, f"{what}: that is this broker's own id: give the broker at {host} a dLegerSelfId of its own"
            )
        if refused := self._why_not_there(what, sender, host):
            return refused
        if self.founded is None:
            return message
        if not envelope.proof and envelope.kind in _UNPROVEN:
            return message
        if not is_proven(envelope, self.founded, data):
            return Refused(
                PROOF,
                f"{what} does not prove that it knows the founding id of {self._group}: it is another group's of this "
                "name, or forged",
            )
        return self._why_replayed(what, envelope, sender) or message

    def _why_not_there(self, what: str, sender: Replica, host: str) -> Refused | None:
        known = self.hosts.get(sender.node_id)
        if known is None:
            return Refused(SENDER, f"{what}: it is neither in dLegerPeers nor a member; members are {self._names()}")
        if _canonical(host) not in {_canonical(each) for each in known}:
            return Refused(
                HOST,
                f"{what}: {sender.node_id} is at {', '.join(sorted(known))}: another broker uses its id, or it sends "
                "from an address that dLegerPeers does not name",
            )
        return None

    def _why_replayed(self, what: str, envelope: Envelope, sender: Replica) -> Refused | None:
        """Return why the message came before.

        No session is ever over: after a restart of ours nobody can tell which one is newer, and a late message of an
        early one must not shut out the sender's present one.
        """
        sessions = _entry(self._heard, sender, OrderedDict, SENDERS_MAX)
        window = _entry(sessions, envelope.session, _Window, SESSIONS_MAX)
        if why := window.why_not(envelope.number):
            return Refused(REPLAYED, f"{what} is not new: {why}")
        window.note(envelope.number)
        return None

    def _names(self) -> str:
        return ", ".join(sorted(self.hosts)) or "none"


def _entry(table: OrderedDict[K, V], key: K, make: Callable[[], V], count_max: int) -> V:
    """Return the entry of ``key``, a new one if it has none; beyond ``count_max`` the one used longest ago goes."""
    if key not in table:
        table[key] = make()
        if len(table) > count_max:
            table.popitem(last=False)
    table.move_to_end(key)
    return table[key]


@lru_cache(HOSTS_REMEMBERED_MAX)
def _canonical(host: str) -> str:
    """Return the one spelling of an IP address: an IPv4 client of a socket for both has an IPv6 one."""
    address = ipaddress.ip_address(host)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)
