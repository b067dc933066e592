"""MessageGate: which messages of request 9120 reach a node's core, and why the others do not.

The core trusts what it is given. So a message of another cluster or group, from a host where its sender is not, without
a proof by the group's secret, or of an earlier session stays outside. Messages go one way, so a refused one is counted,
not answered.
"""

from __future__ import annotations

import ipaddress
import random
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from typing import NamedTuple

from pymq.broker.raft.bodies import (
    BodyError,
    Envelope,
    Seal,
    decode_envelope,
    decode_message,
    encode_message,
    is_proven,
)
from pymq.broker.raft.handshake import LOG_BYTES, MESSAGES, Hello, Sessions, Welcome
from pymq.broker.raft.secret_file import Secrets
from pymq.raft.messages import FoundRequest, Introduction, Message
from pymq.raft.state import Replica

# Reasons, as a counter's label.
FORMAT, FOREIGN, RECEIVER, SENDER, HOST, PROOF, REPLAYED = (
    "format", "foreign", "receiver", "sender", "host", "proof", "replayed"
)  # fmt: skip
REASONS = (FORMAT, FOREIGN, RECEIVER, SENDER, HOST, PROOF, REPLAYED)
HOSTS_REMEMBERED_MAX = 256  # whose one spelling is known
# What a replica may say to a member that is in no group yet.
_UNFOUNDED = frozenset({Introduction.__name__, FoundRequest.__name__})


class Refused(NamedTuple):
    """Why a message was refused: one of :data:`REASONS`, and a text for the log."""

    reason: str
    text: str


class Greeting(NamedTuple):
    """A Hello that is proven, and its sender's session."""

    hello: Hello
    session: str


Taken = Message | Greeting | Refused


class MessageGate:
    """Makes the bodies of one node's messages, and takes or refuses those of others."""

    def __init__(
        self, *, cluster: str, group: str, node_id: str, secrets: Callable[[], Secrets], rng: random.Random
    ) -> None:
        """``secrets`` returns the group's present ones. ``rng`` draws sessions and nonces."""
        self._cluster = cluster
        self._group = group
        self._node_id = node_id
        self.sessions = Sessions(cluster=cluster, group=group, node_id=node_id, secrets=secrets, rng=rng)
        # The group's founding id, from the first membership that the core knows: set before the core's messages are
        # encoded, and after it took one. Empty in no group.
        self.founded = ""
        # Node id -> IP addresses that its messages come from: the configured peers', and the members'.
        self.hosts: Mapping[str, Collection[str]] = {}
        self.refused_count = dict.fromkeys(REASONS, 0)

    def encode(self, message: Message, data: bytes | memoryview = b"") -> bytes | None:
        """Return the body for a message of this node, with the proof for it and for the log bytes that go with it.

        None while the receiver has agreed to no session yet: the message is lost, and a Hello is due.
        """
        lane = LOG_BYTES if data else MESSAGES
        sealed = self.sessions.seal(message.to.node_id, lane)
        if sealed is None:
            return None
        to_session, welcome, number, key = sealed
        seal = Seal(self.founded, self.sessions.own, to_session, welcome, lane, number, key)
        return encode_message(message, seal, cluster=self._cluster, group=self._group, data=data)

    def hello(self, own: Replica, node: str) -> bytes:
        """Return the body of a Hello to a node."""
        return self._handshake(Hello(own, Replica(node, ""), 0, self.sessions.hello_nonce(node)))

    def welcome(self, own: Replica, hello: Hello, session: str) -> bytes:
        """Return the body of the answer to a Hello that was taken, of a sender in this session."""
        count = self.sessions.on_hello(hello.sender.node_id, session)
        return self._handshake(Welcome(own, hello.sender, 0, hello.nonce, count))

    def _handshake(self, message: Message) -> bytes:
        seal = Seal(self.founded, self.sessions.own, "", 0, MESSAGES, 0, self.sessions.handshake_keys()[0])
        return encode_message(message, seal, cluster=self._cluster, group=self._group)

    def take(self, body: bytes | memoryview, host: str, data: bytes | memoryview = b"") -> Taken:
        """Return the message in a body that came from ``host`` (an IP address), or why it is refused.

        A Welcome has had its effect, a Greeting is to be answered with :meth:`welcome`.

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

    def _checked(self, envelope: Envelope, message: Message, host: str, data: bytes | memoryview) -> Taken:
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
        if isinstance(message, (Hello, Welcome)):
            return self._taken_handshake(what, envelope, message)
        return (
            self._why_not_in_session(what, envelope, sender, data) or self._why_other_group(what, envelope) or message
        )

    def _taken_handshake(self, what: str, envelope: Envelope, message: Hello | Welcome) -> Taken:
        if not any(is_proven(envelope, key) for key in self.sessions.handshake_keys()):
            return self._unproven(what)
        if isinstance(message, Hello):
            return Greeting(message, envelope.session)
        if why := self.sessions.on_welcome(message.sender.node_id, envelope.session, message):
            return Refused(REPLAYED, f"{what} is not new: {why}")
        return message

    def _why_not_in_session(
        self, what: str, envelope: Envelope, sender: Replica, data: bytes | memoryview
    ) -> Refused | None:
        """Return why the message is none of its sender's present session, or came before."""
        node, session, welcome = sender.node_id, envelope.session, envelope.welcome
        if envelope.to_session != self.sessions.own:
            return Refused(REPLAYED, f"{what} is for an earlier start of this node")
        if why := self.sessions.why_over(node, session, welcome):
            return Refused(REPLAYED, f"{what} is of no present session: {why}")
        if not any(is_proven(envelope, key, data) for key in self.sessions.keys_of(node, session, welcome)):
            return self._unproven(what)
        if why := self.sessions.why_replayed(node, session, welcome, envelope.lane, envelope.number):
            return Refused(REPLAYED, f"{what} is not new: {why}")
        return None

    def _unproven(self, what: str) -> Refused:
        return Refused(
            PROOF,
            f"{what} does not prove that its sender has the secret of {self._group}: it is forged, or that member has "
            "another secret (raftSecretFile)",
        )

    def _why_other_group(self, what: str, envelope: Envelope) -> Refused | None:
        if not self.founded or envelope.founding_id == self.founded:
            return None
        if not envelope.founding_id and envelope.kind in _UNFOUNDED:
            return None
        theirs = f"the group {envelope.founding_id}" if envelope.founding_id else "no group"
        return Refused(
            FOREIGN, f"{what}: it is in {theirs}, this node is in {self.founded}: both have the name {self._group}"
        )

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

    def _names(self) -> str:
        return ", ".join(sorted(self.hosts)) or "none"


@lru_cache(HOSTS_REMEMBERED_MAX)
def _canonical(host: str) -> str:
    """Return the one spelling of an IP address: an IPv4 client of a socket for both has an IPv6 one."""
    address = ipaddress.ip_address(host)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)
