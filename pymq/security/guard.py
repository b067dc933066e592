"""The check of one request: who sends it, what it needs, and whether the sender is allowed that."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from pymq.errors import Refusal
from pymq.model.access import Need, topic_need
from pymq.security.addresses import Address
from pymq.security.identities import STRANGER, Identity, User, Users
from pymq.security.policies import Policies, Policy, is_peer
from pymq.wire.access import Access
from pymq.wire.codes import ResponseCode, request_name
from pymq.wire.command import Command
from pymq.wire.header import Header

DECISIONS_MAX: Final = 10_000  # a sender could name new topics without end
DECISION_SIZE_MAX: Final = 1024  # characters; a header's fields may be a MiB long, names of topics and groups are short
Decision = tuple[object, ...]  # what an answer of check() depends on: sender, its host, row, topic, group


class Checks(NamedTuple):
    """What a server checks of a request; most check both."""

    proof: bool = True  # that its sender is the user whose name it gives
    rights: bool = True  # that the user may do what it asks for


BOTH: Final = Checks()


class Guard:
    """Decides with one state of users and policies. A change makes another guard."""

    def __init__(self, users: Users, policies: Policies, cluster: str, checks: Checks = BOTH) -> None:
        """``cluster``: the server's; :data:`~pymq.model.access.EVERY_NAME` for a name server."""
        self.users = users
        self._checks = checks
        self.policies = policies
        self._cluster = cluster
        self._allowed: set[Decision] = set()

    def with_user(self, user: User, policy: Policy) -> Guard:
        """Return a guard that knows one user more. Raises Refusal for a name that is there."""
        users = Users([*self.users, user], self.users.trusted_from)
        return Guard(users, self.policies.with_policy(user.name, policy), self._cluster, self._checks)

    def following(self, before: Guard) -> Guard:
        """Return the guard that decides after ``before``; see :meth:`Users.following`."""
        return Guard(self.users.following(before.users), self.policies, self._cluster)

    def identify(self, request: Command, address: Address, certificate_user: str = "") -> Identity:
        """Return the sender of ``request``, whose named fields are as they arrived. Raises Refusal(NO_PERMISSION).

        ``certificate_user``: see :meth:`Users.authenticate`.
        """
        return self.users.authenticate(
            request.ext, request.body, request.version, address, certificate_user, must_prove=self._checks.proof
        )

    def check(
        self, identity: Identity, access: Access, request: Command, header: Header | None, address: Address
    ) -> list[Need]:
        """Return what the sender needs, and has. Raises Refusal: NO_PERMISSION when it lacks a need, another code for a
        body that can't be read."""
        if access.peers_only:
            if not is_peer(identity):
                raise Refusal(
                    ResponseCode.NO_PERMISSION,
                    f"User:{identity.name} is no server: {request_name(request.code)} is for brokers and filter "
                    "servers, sign it with their credentials",
                )
            return []
        needs = access.needs(request, header, self._cluster)
        self.check_needs(identity, needs, address)
        return needs

    def check_found_topic(self, identity: Identity, access: Access, topic: str, address: Address) -> None:
        """Raise Refusal(NO_PERMISSION) when the sender may not have the record of ``topic`` that a handler found."""
        if access.found_topic:
            self.check_needs(identity, (topic_need(topic, *access.found_topic),), address)

    def may(self, identity: Identity, need: Need, address: Address) -> bool:
        """Return whether a sender who was proven before, perhaps by another guard, is allowed ``need``."""
        known = self.users.still(identity, address)
        return known is not None and self._refused_need(known, (need,), address) is None

    def keep_allowed(self, decision: Decision) -> None:
        """Keep that a request was allowed, so that the next one of the kind need not be decided.

        A decision with more than DECISION_SIZE_MAX characters is not kept: the next one is decided again.
        """
        if sum(len(part) for part in decision if isinstance(part, str)) > DECISION_SIZE_MAX:
            return
        if len(self._allowed) >= DECISIONS_MAX:
            self._allowed.clear()
        self._allowed.add(decision)

    def was_allowed(self, decision: Decision) -> bool:
        """True when such a request has been allowed lately."""
        return decision in self._allowed

    def check_needs(self, identity: Identity, needs: Iterable[Need], address: Address) -> None:
        """Raise Refusal(NO_PERMISSION) when the sender may not do what ``needs`` name."""
        refused = self._refused_need(identity, needs, address)
        if refused is not None:
            raise Refusal(ResponseCode.NO_PERMISSION, self._remark(identity, refused, address))

    def _refused_need(self, identity: Identity, needs: Iterable[Need], address: Address) -> Need | None:
        """Return the first need that the sender is not allowed; None also where rights are not checked."""
        return self.policies.refused_need(identity, needs, address) if self._checks.rights else None

    def _remark(self, identity: Identity, need: Need, address: Address) -> str:
        """Return RocketMQ's remark for a need that is not allowed."""
        if identity is STRANGER:
            return "username cannot be null."
        decisions = [self.policies.explain(identity, need.resource, action, address) for action in need.actions]
        is_denied = any(step.mismatch is None for decision in decisions for step in decision.steps)
        why = "the decision is deny." if is_denied else "no matched policies."
        return f"User:{identity.name} has no permission to access {need.resource} from {address}, {why}"
