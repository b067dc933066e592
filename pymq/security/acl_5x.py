"""Users and ACLs of RocketMQ 5.x, as the AUTH_* requests carry them, in terms of the one permission model.

What a request has wrong is refused with code 16 and the text that RocketMQ's broker has for it, and the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

from pymq.errors import Refusal, UsageError
from pymq.model.access import Action
from pymq.security.addresses import AddressRange, parse_block
from pymq.security.identities import User, UserType
from pymq.security.policies import (
    Effect,
    Entry,
    Policy,
    ResourcePattern,
    action_texts,
    parse_actions,
)
from pymq.security.signature import Secret
from pymq.wire.bodies_auth import AclEntryInfo, AclInfo, PolicyInfo, UserInfo
from pymq.wire.codes import ResponseCode

ENTRIES_MAX: Final = 10_000  # of one ACL
SOURCES_MAX: Final = 256  # of one entry
CUSTOM, DEFAULT = "Custom", "Default"
_SUBJECT_PREFIX = "User:"
_ENABLED, _DISABLED = "enable", "disable"
_EFFECTS = {effect.value.lower(): effect for effect in Effect}
# RocketMQ's two; a user for servers is made by PyMQ's own commands.
_TYPES = {kind.value.lower(): kind for kind in (UserType.SUPER, UserType.NORMAL)}
T = TypeVar("T")
R = TypeVar("R")


# -- users -------------------------------------------------------------------------------------------------------------


def new_user(name: str, info: UserInfo) -> User:
    """Return the user that AUTH_CREATE_USER (3001) asks for, a normal and enabled one where it says nothing else."""
    if not name:
        raise Refusal(ResponseCode.INVALID_PARAMETER, "The username is blank: name the user")
    if not info.password:
        raise _refused("password can not be blank")
    return changed_user(User(name, Secret(info.password)), info)


def changed_user(user: User, info: UserInfo) -> User:
    """Return ``user`` with what AUTH_UPDATE_USER (3002) changes."""
    kind, is_enabled = user.kind, user.is_enabled
    if info.user_type:
        kind = _known(_TYPES, info.user_type, "The userType is null or illegal.")
    if info.user_status:
        statuses = {_ENABLED: True, _DISABLED: False}
        is_enabled = _known(statuses, info.user_status, "The userStatus is null or illegal.")
    return User(
        user.name,
        Secret(info.password) if info.password else user.secret,
        kind,
        is_enabled,
        user.trusted_from,
    )


def user_info(user: User, *, with_secret: bool) -> UserInfo:
    """Return a user for an answer. ``with_secret``: for ``copyUser`` of mqadmin, which needs the password."""
    return UserInfo(
        username=user.name,
        password=user.secret.reveal() if with_secret else None,
        user_type=user.kind.value,
        user_status=_ENABLED if user.is_enabled else _DISABLED,
    )


# -- ACLs --------------------------------------------------------------------------------------------------------------


def subject_name(subject: str | None) -> str:
    """Return the user of a subject ``User:name``. Raises Refusal."""
    text = subject or ""
    if not text[: len(_SUBJECT_PREFIX)].lower() == _SUBJECT_PREFIX.lower() or len(text) == len(_SUBJECT_PREFIX):
        raise _refused(f"The subject is null or illegal: {text[:60]!r} is not of the form User:name")
    return text[len(_SUBJECT_PREFIX) :]


def merged(policy: Policy, info: AclInfo) -> Policy:
    """Return ``policy`` after AUTH_CREATE_ACL (3006) or AUTH_UPDATE_ACL (3007).

    An entry replaces those about the same resource, of the request too; others stay.
    """
    custom, default = list(policy.custom), list(policy.default)
    if not info.policies:
        raise _refused("The policies is empty: send one with its entries")
    for part in info.policies:
        level = custom if _is_custom(part.policy_type) else default
        if not part.entries:
            raise _refused("The policy entries is empty: send one with resource, actions and decision")
        new = {entry.resource: entry for entry in map(_entry, part.entries)}
        level[:] = [entry for entry in level if entry.resource not in new] + list(new.values())
    if len(custom) + len(default) > ENTRIES_MAX:
        raise _refused(
            f"the ACL would have {len(custom) + len(default)} entries, the limit is {ENTRIES_MAX}: use prefixes"
        )
    return Policy(tuple(custom), tuple(default))


def without(policy: Policy, *, policy_type: str | None = None, resource: str | None = None) -> Policy:
    """Return ``policy`` after AUTH_DELETE_ACL (3008): without a resource nothing is left of the level, or of both."""
    pattern = _parsed(ResourcePattern.parse, resource, "The resource is null.") if resource else None

    def kept(level: Sequence[Entry], is_custom: bool) -> tuple[Entry, ...]:
        if policy_type and _is_custom(policy_type) != is_custom:
            return tuple(level)
        return tuple(entry for entry in level if pattern is not None and entry.resource != pattern)

    return Policy(kept(policy.custom, True), kept(policy.default, False))


def acl_info(name: str, policy: Policy) -> AclInfo:
    """Return a user's ACL for an answer."""
    parts = [
        PolicyInfo(policy_type=level, entries=[_entry_info(entry) for entry in entries])
        for level, entries in ((CUSTOM, policy.custom), (DEFAULT, policy.default))
        if entries
    ]
    return AclInfo(subject=f"{_SUBJECT_PREFIX}{name}", policies=parts)


def filtered(info: AclInfo, resource_filter: str | None) -> AclInfo | None:
    """Return the part of an ACL whose resources contain a text; None when nothing is left."""
    parts = []
    for part in info.policies or ():
        entries = [entry for entry in part.entries or () if (resource_filter or "") in (entry.resource or "")]
        if entries:
            parts.append(PolicyInfo(policy_type=part.policy_type, entries=entries))
    return AclInfo(subject=info.subject, policies=parts) if parts else None


def _entry(info: AclEntryInfo) -> Entry:
    return Entry(
        _parsed(ResourcePattern.parse, info.resource, "The resource is null."),
        _actions(info.actions),
        _known(_EFFECTS, info.decision, "The decision is null or illegal."),
        _sources(info.source_ips or ()),
    )


def _actions(texts: Iterable[str] | None) -> frozenset[Action]:
    given = [text for text in texts or () if text]
    if any(text.strip().lower() == "any" for text in given):
        raise _refused("The actions can not be Any.")
    return _parsed(parse_actions, given, "The actions is empty.")


def _sources(texts: Sequence[str]) -> tuple[AddressRange, ...]:
    given = [text for text in texts if text.strip()]
    if len(given) > SOURCES_MAX:
        raise _refused(f"an entry names {len(given)} source addresses, the limit is {SOURCES_MAX}: use CIDR blocks")
    return tuple(_parsed(parse_block, text, "The source ip is invalid.") for text in given)


def _entry_info(entry: Entry) -> AclEntryInfo:
    return AclEntryInfo(
        resource=str(entry.resource),
        actions=action_texts(entry.actions),
        source_ips=[block.text for block in entry.sources] or None,
        decision=entry.effect.value,
    )


def _is_custom(policy_type: str | None) -> bool:
    levels = {CUSTOM.lower(): True, DEFAULT.lower(): False}
    return _known(levels, policy_type or CUSTOM, "The policy type is illegal.")


def _parsed(parse: Callable[[T], R], value: T | None, remark: str) -> R:
    if not value:
        raise _refused(remark)
    try:
        return parse(value)
    except UsageError as error:
        raise _refused(f"{remark} {error}") from error


def _known(values: dict[str, T], text: str | None, remark: str) -> T:
    found = values.get((text or "").strip().lower())
    if found is None:
        raise _refused(f"{remark} {(text or '')[:40]!r} is not one of {', '.join(values)}")
    return found


def _refused(remark: str) -> Refusal:
    return Refusal(ResponseCode.NO_PERMISSION, remark)
