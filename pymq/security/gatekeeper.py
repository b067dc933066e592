"""Gatekeeper: stands before a server's handlers, with the guard of the moment and what it has decided lately."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from pymq.errors import Refusal
from pymq.model.access import Action, Need, topic_need
from pymq.model.sized_cache import SizedCache
from pymq.security.addresses import Address, parse_address
from pymq.security.certificate_users import CertificateUsers
from pymq.security.guard import Guard
from pymq.security.identities import STRANGER, Identity, User, Users
from pymq.security.made_by_users import MadeByUsers
from pymq.security.policies import PORT_POLICY
from pymq.security.sender_limits import UNKNOWN_USER, SenderLimits
from pymq.security.signature import ACCESS_KEY, Secret, signed_fields
from pymq.wire.access import Access
from pymq.wire.codes import VERSION_5_3_3, ResponseCode
from pymq.wire.command import Command
from pymq.wire.dispatch import Peer
from pymq.wire.header import Header

ADDRESSES_LIMIT_BYTES: Final = 1024 * 1024


class OpenRequests(NamedTuple):
    """The request codes of RocketMQ's white lists. Requests between servers are never open."""

    unproven: frozenset[int] = frozenset()  # need no user
    free: frozenset[int] = frozenset()  # need no right

    def has(self, code: int) -> bool:
        """True for a request that one of the lists names."""
        return code in self.unproven or code in self.free


class Admitted(NamedTuple):
    """The proven sender of one request, and the guard that proved it (:class:`~pymq.wire.dispatch.Sender`)."""

    guard: Guard
    identity: Identity
    address: Address
    gatekeeper: Gatekeeper
    is_free: bool = False  # its request needs no right

    @property
    def name(self) -> str:
        return self.identity.name

    @property
    def is_administrator(self) -> bool:
        return self.identity.is_administrator

    @property
    def is_proven(self) -> bool:
        return self.identity.is_proven

    def check(self, access: Access, request: Command, header: Header | None) -> None:
        """Raise Refusal when the sender may not send this request."""
        if self.is_free and not access.peers_only:
            return
        needs = self.guard.check(self.identity, access, request, header, self.address)
        if self.gatekeeper.made is not None:
            self.gatekeeper.made.check(self.identity, needs)

    def check_found_topic(self, access: Access, topic: str) -> None:
        """Raise Refusal when the sender may not have the record of ``topic`` that a handler found."""
        if not self.is_free:
            self.guard.check_found_topic(self.identity, access, topic, self.address)

    @property
    def is_still_there(self) -> bool:
        """True while the proof counts: the user was not deleted or disabled, and has the same secret."""
        return self.gatekeeper.guard.users.still(self.identity, self.address) is not None

    def may_read(self, topic: str) -> bool:
        """Return whether the same user, with the same secret, may consume ``topic`` now."""
        return self.gatekeeper.guard.may(self.identity, topic_need(topic, Action.SUB), self.address)

    def may_publish(self, topic: str) -> bool:
        """Return whether the same user, with the same secret, may publish to ``topic`` now."""
        return self.gatekeeper.guard.may(self.identity, topic_need(topic, Action.PUB), self.address)

    def may(self, need: Need) -> bool:
        """Return whether the same user, with the same secret, is allowed ``need`` now; all when the request needs no
        right."""
        return self.is_free or self.gatekeeper.guard.may(self.identity, need, self.address)


class ProvenCall(NamedTuple):
    """Who makes a call of another protocol, and the guard that proved it."""

    guard: Guard
    identity: Identity
    address: Address


class Gatekeeper:
    """Admits requests of proven senders (:class:`~pymq.wire.dispatch.Gate`)."""

    def __init__(self, guard: Guard) -> None:
        self.guard = guard
        self._port_user: User | None = None
        self.refused_count = 0  # requests whose sender is not proven
        self.open_requests = OpenRequests()
        self.limits: SenderLimits | None = None
        self.made: MadeByUsers | None = None  # None: users may make as many topics and groups as the broker takes
        self.certificates: CertificateUsers | None = None  # None: certificates name no user
        self._on_change: list[Callable[[], None]] = []
        # Peers' addresses by their text, "host:port".
        self._addresses = SizedCache[str, Address](
            lambda text: parse_address(text.rpartition(":")[0].strip("[]")), lambda *_: 100, ADDRESSES_LIMIT_BYTES
        )

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Have ``listener`` called after each change of users and policies."""
        self._on_change.append(listener)

    def replace(self, guard: Guard) -> None:
        """Decide with other users and policies from now on."""
        guard = guard.following(self.guard)
        self.guard = guard if self._port_user is None else guard.with_user(self._port_user, PORT_POLICY)
        for listener in self._on_change:
            listener()

    def admit_port(self, user: User) -> None:
        """Know the user with which a gRPC port of this process passes its clients' calls on, now and after changes.

        It has no limits: its clients have them. Raises Refusal for a name that is there.
        """
        self._port_user = user
        self.guard = self.guard.with_user(user, PORT_POLICY)

    def admit(self, request: Command, peer: Peer) -> Admitted:
        """Return the sender of a request. Raises Refusal: NO_PERMISSION, or SYSTEM_BUSY beyond a limit."""
        limits = self.limits
        if self._port_user is not None and request.ext.get(ACCESS_KEY) == self._port_user.name:
            return self.prove(request, peer)
        if limits is not None:
            limits.check_address(self._addresses[peer.address], len(request.body))
        try:
            admitted = self.prove(request, peer)
        except Refusal:
            if request.code in self.open_requests.unproven:
                return self._admitted(self.guard, STRANGER, self._addresses[peer.address], request.code)
            self.refused_count += 1
            if limits is not None and (name := request.ext.get(ACCESS_KEY)):
                limits.failed_proofs.note(self._addresses[peer.address], self._known(name))
            raise
        if limits is not None and limits.is_on:
            limits.check_user(admitted.identity, len(request.body), peer)
        return admitted

    def prove(self, request: Command, peer: Peer) -> Admitted:
        """As :meth:`admit`, but counts nothing: a fast path asks, and leaves what is refused to the plain path."""
        guard, address, limits = self.guard, self._addresses[peer.address], self.limits
        if limits is not None and limits.failed_proofs.has_blocked and (name := request.ext.get(ACCESS_KEY)):
            limits.failed_proofs.check(address, self._known(name))
        identity = guard.identify(request, address, self.certificate_user(peer))
        if limits is not None:
            limits.failed_proofs.note_proven(address, identity.name)
        return self._admitted(guard, identity, address, request.code)

    def _admitted(self, guard: Guard, identity: Identity, address: Address, code: int) -> Admitted:
        return Admitted(guard, identity, address, self, code in self.open_requests.free)

    def is_blocked(self, name: str, peer: Peer) -> bool:
        """True while requests of ``peer`` that name this user are refused for failed proofs. A fast path asks."""
        limits = self.limits
        if limits is None or not limits.failed_proofs.has_blocked:
            return False
        try:
            limits.failed_proofs.check(self._addresses[peer.address], self._known(name))
        except Refusal:
            return True
        return False

    def prove_call(self, name: str, is_proven: Callable[[Secret], bool], peer_address: str) -> ProvenCall:
        """Return who makes a call of another protocol than RocketMQ's remoting, before its request is read.

        ``name`` is the user's, ``is_proven`` compares a secret with what the call shows, ``peer_address``: "host:port".
        Raises Refusal, as :meth:`admit`.
        """
        guard, address, limits = self.guard, self._addresses[peer_address], self.limits
        if limits is not None:
            limits.check_address(address, 0)
            if limits.failed_proofs.has_blocked and name:
                limits.failed_proofs.check(address, self._known(name))
        try:
            identity = guard.users.authenticate(_fields(guard.users, name, is_proven), b"", VERSION_5_3_3, address)
        except Refusal:
            self.refused_count += 1
            if limits is not None and name:
                limits.failed_proofs.note(address, self._known(name))
            raise
        if limits is not None:
            limits.failed_proofs.note_proven(address, identity.name)
        return ProvenCall(guard, identity, address)

    def is_still_there(self, proven: ProvenCall) -> bool:
        """True while the proof of a call counts, as :attr:`Admitted.is_still_there`."""
        return self.guard.users.still(proven.identity, proven.address) is not None

    def check_call(self, proven: ProvenCall, needs: Iterable[Need], size_bytes: int) -> None:
        """Check what a proven call asks for. Raises Refusal, as :meth:`admit` and Admitted."""
        guard, limits = self.guard, self.limits
        identity: Identity | None = proven.identity
        if guard is not proven.guard:  # users and rules have changed since
            identity = guard.users.still(proven.identity, proven.address)
        if identity is None:
            text = f"User:{proven.identity.name} is not found, or has another secret now."
            raise Refusal(ResponseCode.NO_PERMISSION, text)
        if limits is not None and limits.is_on:
            limits.check_address_bytes(proven.address, size_bytes)
            limits.check_user(identity, size_bytes, None)
        guard.check_needs(identity, needs, proven.address)

    def _known(self, name: str) -> str:
        """Return the name of a user as failed proofs are counted by it."""
        return name if self.guard.users.get(name) is not None else UNKNOWN_USER

    def certificate_user(self, peer: Peer) -> str:
        """Return the user for whom a connection's certificate stands; empty for none."""
        return self.certificates.user_of(peer.client_certificate) if self.certificates is not None else ""


def _fields(users: Users, name: str, is_proven: Callable[[Secret], bool]) -> dict[str, str]:
    """Return the fields with which a user that has proven itself otherwise would sign an empty request."""
    if not name:
        return {}
    user = users.get(name)
    if user is not None and is_proven(user.secret):
        return signed_fields(name, user.secret, {}, b"")
    return {ACCESS_KEY: name}
