"""The permission model: entries that allow or deny, the decision about a request's needs, and its explanation.

An entry applies to a need when its resource covers the need's, its actions have the one that is asked for, and its
addresses contain the sender's. A user's *custom* entries are looked at first. Only when none of them applies, its
*default* entries count. Among the entries that apply, those with the most exact resource decide, and one of them that
denies wins. Without an entry the answer is no.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Final, NamedTuple

from pymq.errors import UsageError
from pymq.model.access import ALL_ACTIONS, EVERY_NAME, Action, Need, Resource, ResourceKind
from pymq.model.names import DLQ_PREFIX, RETRY_PREFIX
from pymq.security.addresses import Address, AddressRange
from pymq.security.identities import Identity, UserType

NAME_LENGTH_MAX: Final = 255
ALL = "All"
_STAR = "*"
_KINDS = {kind.value.lower(): kind for kind in ResourceKind}
_ACTIONS = {action.value.lower(): action for action in Action}


class Effect(Enum):
    """What an entry does. The values are RocketMQ's names."""

    ALLOW = "Allow"
    DENY = "Deny"


class Match(IntEnum):
    """How a pattern compares names, the vaguest first."""

    ANY = 0
    PREFIX = 1
    LITERAL = 2


class ResourcePattern(NamedTuple):
    """Resources that an entry is for. ``kind`` None stands for all kinds, with the match ``ANY``."""

    kind: ResourceKind | None
    match: Match
    name: str = ""

    @classmethod
    def parse(cls, text: str) -> ResourcePattern:
        """Return the pattern of ``*``, ``Topic:*``, ``Topic:prefix*`` or ``Topic:name``. Raises UsageError."""
        text = text.strip()
        if text == _STAR:
            return cls(None, Match.ANY)
        kind_name, colon, name = text.partition(":")
        kind = _KINDS.get(kind_name.strip().lower())
        if kind is None or not colon or not name or len(name) > NAME_LENGTH_MAX or _STAR in name[:-1]:
            raise UsageError(
                f"{text[:60]!r} is no resource: write *, or one of {', '.join(k.value for k in ResourceKind)} with a "
                f"name of at most {NAME_LENGTH_MAX} characters that may end with a star, such as Topic:orders*"
            )
        if name == _STAR:
            return cls(kind, Match.ANY)
        match = Match.PREFIX if name.endswith(_STAR) else Match.LITERAL
        pattern = cls(kind, match, name.removesuffix(_STAR))
        pattern._check_owned()
        return pattern

    def _check_owned(self) -> None:
        """Raise UsageError for retry and dead-letter topics: no need names them, so the entry would do nothing."""
        if self.kind is not ResourceKind.TOPIC:
            return
        for prefix in (RETRY_PREFIX, DLQ_PREFIX):
            if self.name.startswith(prefix) or (self.match is Match.PREFIX and prefix.startswith(self.name)):
                raise UsageError(
                    f"{self} names retry or dead-letter topics, which follow their group: name the group, such as "
                    f"Group:{self.name.removeprefix(prefix) or _STAR}"
                )

    def covers(self, resource: Resource) -> bool:
        """True when the pattern stands for ``resource``; only ``*`` stands for all of a kind."""
        if self.kind is not None and self.kind is not resource.kind:
            return False
        if self.match is Match.ANY:
            return True
        if resource.name == EVERY_NAME:
            return False
        return resource.name.startswith(self.name) if self.match is Match.PREFIX else resource.name == self.name

    @property
    def exactness(self) -> tuple[bool, Match, int]:
        """How exactly the pattern names a resource, in RocketMQ's order, for comparisons.

        ``*`` is below all of a kind, that below a prefix, a shorter prefix below a longer one, all below a literal.
        """
        return self.kind is not None, self.match, len(self.name)

    def __str__(self) -> str:
        if self.kind is None:
            return _STAR
        return f"{self.kind.value}:{self.name}{'' if self.match is Match.LITERAL else _STAR}"


def parse_actions(texts: Iterable[str]) -> frozenset[Action]:
    """Return the actions of those names, in any case; ``All`` stands for each. Raises UsageError."""
    found: set[Action] = set()
    for text in texts:
        name = text.strip().lower()
        if name == ALL.lower():
            found |= ALL_ACTIONS
        elif name in _ACTIONS:
            found.add(_ACTIONS[name])
        else:
            known = ", ".join([ALL, *(action.value for action in Action)])
            raise UsageError(f"{text[:40]!r} is no action: use {known}")
    if not found:
        raise UsageError(f"no action is named: use {ALL} or some of {', '.join(action.value for action in Action)}")
    return frozenset(found)


def action_texts(actions: frozenset[Action]) -> list[str]:
    """Return the names of actions in a fixed order, ``All`` for each of them together."""
    return [ALL] if actions == ALL_ACTIONS else [action.value for action in Action if action in actions]


@dataclass(frozen=True)
class Entry:
    """One rule. Without ``sources`` it applies from every address."""

    resource: ResourcePattern
    actions: frozenset[Action]
    effect: Effect
    sources: tuple[AddressRange, ...] = ()

    def mismatch(self, resource: Resource, action: Action, address: Address) -> str | None:
        """Return why the entry does not apply, as words for an explanation; None when it applies."""
        if not self.resource.covers(resource):
            return "another resource"
        if action not in self.actions:
            return "another action"
        if self.sources and not any(block.contains(address) for block in self.sources):
            return "another address"
        return None

    def __str__(self) -> str:
        where = f" from {', '.join(block.text for block in self.sources)}" if self.sources else ""
        return f"{self.effect.value} {', '.join(action_texts(self.actions))} on {self.resource}{where}"


@dataclass(frozen=True)
class Policy:
    """What one user may do: custom entries, and default entries for what no custom entry is about."""

    custom: tuple[Entry, ...] = ()
    default: tuple[Entry, ...] = ()

    @property
    def levels(self) -> tuple[tuple[str, tuple[Entry, ...]], ...]:
        """The entries with the name of their level, in the order in which they count."""
        return ("Custom", self.custom), ("Default", self.default)


NO_POLICY: Final = Policy()
# What slaves and filter servers do at other servers, beside the rows between servers.
_READS: Final = frozenset({Action.GET, Action.LIST})
INNER_POLICY: Final = Policy(
    custom=(
        Entry(ResourcePattern(ResourceKind.CLUSTER, Match.ANY), _READS, Effect.ALLOW),
        Entry(ResourcePattern(ResourceKind.TOPIC, Match.ANY), _READS | {Action.SUB}, Effect.ALLOW),
        Entry(ResourcePattern(ResourceKind.GROUP, Match.ANY), _READS | {Action.SUB}, Effect.ALLOW),
    )
)

# What a broker's own gRPC port does at brokers. It has checked its clients before.
PORT_POLICY: Final = Policy(
    custom=(
        Entry(
            ResourcePattern(ResourceKind.TOPIC, Match.ANY),
            frozenset({Action.PUB, Action.SUB, Action.GET}),
            Effect.ALLOW,
        ),
        Entry(ResourcePattern(ResourceKind.GROUP, Match.ANY), frozenset({Action.SUB, Action.GET}), Effect.ALLOW),
    )
)


class Step(NamedTuple):
    """One line of an explanation: an entry of a level, and why it does not apply (None: it applies)."""

    level: str
    entry: Entry
    mismatch: str | None

    def __str__(self) -> str:
        return f"{self.level}: {self.entry}: {self.mismatch or 'applies'}"


@dataclass(frozen=True)
class Explanation:
    """A decision about one action on one resource, with every rule that was looked at."""

    is_allowed: bool
    why: str
    steps: tuple[Step, ...] = ()


def allows(policy: Policy, resource: Resource, action: Action, address: Address) -> bool:
    """True when ``policy`` allows the action from that address."""
    for _, entries in policy.levels:
        deciding = _deciding([entry for entry in entries if entry.mismatch(resource, action, address) is None])
        if deciding:
            return all(entry.effect is Effect.ALLOW for entry in deciding)
    return False


def explain(policy: Policy, resource: Resource, action: Action, address: Address) -> Explanation:
    """Return the same decision as :func:`allows`, rule by rule."""
    steps: list[Step] = []
    for level, entries in policy.levels:
        mismatches = [entry.mismatch(resource, action, address) for entry in entries]
        deciding = _deciding([entry for entry, why_not in zip(entries, mismatches, strict=True) if why_not is None])
        for entry, why_not in zip(entries, mismatches, strict=True):
            outranked = None if entry in deciding else "a more exact resource goes first"
            steps.append(Step(level, entry, why_not or outranked))
        if deciding:
            denying = [entry for entry in deciding if entry.effect is Effect.DENY]
            why = f"{level} entry: {(denying or deciding)[0]}"
            return Explanation(not denying, why, tuple(steps))
    return Explanation(False, "no entry applies, and without one the answer is no", tuple(steps))


def _deciding(applying: Sequence[Entry]) -> list[Entry]:
    """Return those of the entries that apply whose resources are the most exact."""
    most = max((entry.resource.exactness for entry in applying), default=None)
    return [entry for entry in applying if entry.resource.exactness == most]


class Policies:
    """The policies of users by name. The table never changes: a change makes another one."""

    def __init__(self, policies: Mapping[str, Policy] | None = None) -> None:
        self._policies = dict(policies or {})

    def __iter__(self) -> Iterator[tuple[str, Policy]]:
        return iter(self._policies.items())

    def __len__(self) -> int:
        return len(self._policies)

    def of(self, name: str) -> Policy:
        """Return the policy of a user, an empty one for a user without."""
        return self._policies.get(name, NO_POLICY)

    def with_policy(self, name: str, policy: Policy) -> Policies:
        """Return a table with that policy; an empty one removes the user's."""
        kept = {key: value for key, value in self._policies.items() if key != name}
        return Policies(kept if policy == NO_POLICY else {**kept, name: policy})

    def refused_need(self, identity: Identity, needs: Iterable[Need], address: Address) -> Need | None:
        """Return the first need that the sender is not allowed; None when it is allowed all of them.

        A need is allowed when one of its actions is.
        """
        policy = self._policy_for(identity)
        if policy is None:
            return None
        for need in needs:
            if not any(allows(policy, need.resource, action, address) for action in need.actions):
                return need
        return None

    def explain(self, identity: Identity, resource: Resource, action: Action, address: Address) -> Explanation:
        """Return the decision about one action with its reasons."""
        policy = self._policy_for(identity)
        if policy is not None:
            return explain(policy, resource, action, address)
        if identity.is_trusted:
            return Explanation(True, f"{address} is in a white list, from where everything is allowed")
        return Explanation(True, f"{identity.name} is of type {UserType.SUPER.value}, which is allowed everything")

    def _policy_for(self, identity: Identity) -> Policy | None:
        """Return the policy that decides; None for a sender who passes every check."""
        user = identity.user
        if identity.is_trusted:
            return None
        if user is None:
            return NO_POLICY
        if user.kind is UserType.SUPER:
            return None
        return INNER_POLICY if user.kind is UserType.INNER else self.of(user.name)


def is_peer(identity: Identity) -> bool:
    """True for a sender of the rows between servers: a broker or filter server, or an administrator."""
    return identity.user is not None and identity.is_proven and identity.user.kind in (UserType.INNER, UserType.SUPER)
