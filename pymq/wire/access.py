"""The access column of a server's route table: which needs a request has, by the fields of its header and its body.

Each :class:`Route <pymq.wire.dispatch.Route>` has one :class:`Access`. A need is for a resource that the request names;
``found_topic`` is for a topic that only the handler finds, because the request names a place in the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Final, NamedTuple

import msgspec

from pymq.model.access import (
    EVERY_NAME,
    Action,
    Need,
    Resource,
    ResourceKind,
    cluster_need,
    group_need,
    topic_need,
)
from pymq.model.pop import NORMAL, normal_topic
from pymq.wire.command import Command
from pymq.wire.header import Header

CHANGES: Final = frozenset({Action.CREATE, Action.UPDATE, Action.DELETE})
FindNeeds = Callable[[Command, Any, str], Iterable[Need]]


class Claim(NamedTuple):
    """One part of an access: finds needs in a request. ``fields`` are the header's attributes that it reads.

    ``actions``: those of which its needs want one each; empty when they are not the same for all requests.
    """

    fields: tuple[str, ...]
    find: FindNeeds  # takes the request, its typed header and the server's cluster
    actions: tuple[Action, ...] = ()


class Access(NamedTuple):
    """What the sender of a request must be allowed. Make one with the functions below, not with this constructor."""

    claims: tuple[Claim, ...]
    found_topic: tuple[Action, ...] = ()  # of these the sender needs one on the topic that the handler finds
    peers_only: bool = False  # for brokers and filter servers, which have the broker-to-broker credential

    @property
    def is_change(self) -> bool:
        """True for requests of operators that create, change or delete something: an audit log names each of them."""
        return any(claim.actions and CHANGES.issuperset(claim.actions) for claim in self.claims)

    def needs(self, request: Command, header: Header | None, cluster: str) -> list[Need]:
        """Return all needs of ``request``: the sender must be allowed each of them.

        ``cluster`` is the server's, :data:`EVERY_NAME` for a name server. Raises Refusal for a body that can't be read.
        """
        found = (need for claim in self.claims for need in claim.find(request, header, cluster))
        return list(dict.fromkeys(found))

    def problem(self, header: type[Header] | None) -> str | None:
        """Return why a row with this access and ``header`` can't be registered; None when it can."""
        known = header.__struct_fields__ if header is not None else ()
        missing = [name for claim in self.claims for name in claim.fields if name not in known]
        if missing:
            where = header.__name__ if header is not None else "a row without a header"
            return f"{where} has no {' and no '.join(missing)}, which the access column reads"
        return None


def needs(*claims: Claim, found_topic: tuple[Action, ...] = ()) -> Access:
    """Return the access of a request whose sender must be allowed each need that ``claims`` find."""
    assert claims or found_topic, "a row without needs is any_user() or peers_only()"
    return Access(claims, found_topic)


def any_user() -> Access:
    """Return the access of a request that every proven user may send. It shows and changes nothing of others."""
    return Access(())


def peers_only() -> Access:
    """Return the access of a request between brokers, name servers and filter servers."""
    return Access((), peers_only=True)


# -- claims ------------------------------------------------------------------------------------------------------------


def topic(*actions: Action, field: str = "topic") -> Claim:
    """A topic that the header names. A field that may be left out, and is left out or empty, names none."""

    def find(request: Command, header: Any, cluster: str) -> Iterable[Need]:
        name = _named(header, field)
        return () if name is None else (topic_need(name, *actions),)

    return Claim((field,), find, actions)


def topics(*actions: Action, field: str, separator: str) -> Claim:
    """Several topics in one field of the header."""

    def find(request: Command, header: Any, cluster: str) -> Iterable[Need]:
        return (topic_need(name, *actions) for name in (getattr(header, field) or "").split(separator) if name)

    return Claim((field,), find, actions)


def group(*actions: Action, field: str = "consumer_group") -> Claim:
    """A group that the header names. A field that may be left out, and is left out or empty, names none."""

    def find(request: Command, header: Any, cluster: str) -> Iterable[Need]:
        name = _named(header, field)
        return () if name is None else (group_need(name, *actions),)

    return Claim((field,), find, actions)


def groups(*actions: Action, field: str, separator: str) -> Claim:
    """Several groups in one field of the header."""

    def find(request: Command, header: Any, cluster: str) -> Iterable[Need]:
        return (group_need(name, *actions) for name in (getattr(header, field) or "").split(separator) if name)

    return Claim((field,), find, actions)


def unless_all(*claims: Claim) -> tuple[Claim, ...]:
    """Return claims of requests for one topic or group, not of those for the rows of all.

    Such a request needs nothing: its handler leaves out each row that the sender may not see.
    """

    def narrowed(claim: Claim) -> Claim:
        def find(request: Command, header: Any, cluster: str) -> Iterable[Need]:
            return () if _asks_for_all(header) else claim.find(request, header, cluster)

        return Claim((*claim.fields, "pymq_all"), find, claim.actions)

    return tuple(map(narrowed, claims))


def _asks_for_all(header: Any) -> bool:
    return bool(header.pymq_all)


def popped_topic(*actions: Action) -> Claim:
    """The topic of a receipt: for the group's own retry topics the group's permission is enough."""

    def find(request: Command, header: Any, cluster: str) -> Iterable[Need]:
        name, of_group = header.topic, header.consumer_group
        if normal_topic(name, of_group)[1] != NORMAL:
            return (group_need(of_group, *actions),)
        return (topic_need(name, *actions),)

    return Claim(("topic", "consumer_group"), find, actions)


def cluster(*actions: Action) -> Claim:
    """The server's own cluster; for a name server all clusters."""
    return Claim((), lambda request, header, name: (cluster_need(name, *actions),), actions)


def named_cluster(*actions: Action, field: str) -> Claim:
    """A cluster that the header names; all clusters without a name."""

    def find(request: Command, header: Any, cluster: str) -> Iterable[Need]:
        return (cluster_need(getattr(header, field) or EVERY_NAME, *actions),)

    return Claim((field,), find, actions)


def every_topic(*actions: Action) -> Claim:
    """All topics at once."""
    every = Need(Resource(ResourceKind.TOPIC, EVERY_NAME), actions)
    return Claim((), lambda request, header, name: (every,), actions)


def in_body(find: Callable[[bytes, str], Iterable[Need]], *actions: Action) -> Claim:
    """Needs that the body names. ``find`` takes the body and the server's cluster. It raises Refusal."""
    return Claim((), lambda request, header, name: find(request.body, name), actions)


def _named(header: Header, field: str) -> str | None:
    """Return the name in a field; None when it names nothing.

    C++ and Node clients write an empty text for a field that Java leaves out. In a field that must be there, an empty
    text is a name, which only entries for all names cover: a request never gets rid of a need by it.
    """
    name: str | None = getattr(header, field)
    return None if name == "" and field in _optional_fields(type(header)) else name


@cache
def _optional_fields(cls: type[Header]) -> frozenset[str]:
    return frozenset(field.name for field in msgspec.structs.fields(cls) if field.default is None)
