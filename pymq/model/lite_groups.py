"""Attributes of consumer groups that read lite topics. Java: SubscriptionGroupAttributes, LiteMetadataUtil."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from pymq.model.names import topic_problem

BIND_TOPIC: Final = "lite.bind.topic"
SUB_MODEL: Final = "lite.sub.model"
RESET_EXCLUSIVE: Final = "lite.sub.reset.offset.exclusive"
RESET_UNSUBSCRIBE: Final = "lite.sub.reset.offset.unsubscribe"
CLIENT_QUOTA: Final = "lite.sub.client.quota"
MAX_EVENT_COUNT: Final = "lite.sub.client.max.event.cnt"
WILDCARD: Final = "lite.sub.wildcard"
ATTRIBUTES: Final = (
    BIND_TOPIC,
    SUB_MODEL,
    RESET_EXCLUSIVE,
    RESET_UNSUBSCRIBE,
    CLIENT_QUOTA,
    MAX_EVENT_COUNT,
    WILDCARD,
)

EXCLUSIVE: Final = "Exclusive"
SUB_MODELS: Final = ("Shared", EXCLUSIVE)
QUOTA_DEFAULT: Final = 2000
NO_QUOTA: Final = -1
_EVENT_COUNT_MIN = 10
_NUMBER_MAX = (1 << 63) - 1
_TRUTHS = ("true", "false")


class LiteGroupRules(NamedTuple):
    """How a group reads the lite topics of ``parent``.

    ``is_wildcard``: its members get all of them. ``is_exclusive``: a new subscriber of a lite topic ends the
    subscription of the one before. ``client_quota``: the most lite topics of one client, -1 for any number.
    """

    parent: str
    is_exclusive: bool
    is_wildcard: bool
    resets_when_excluded: bool
    resets_when_unsubscribed: bool
    client_quota: int


def lite_group_rules(attributes: Mapping[str, str]) -> LiteGroupRules | None:
    """Return how a group with these attributes reads lite topics; None for a group that reads none."""
    parent = attributes.get(BIND_TOPIC) if attributes else None
    if not parent:
        return None
    quota = attributes.get(CLIENT_QUOTA, "")
    return LiteGroupRules(
        parent,
        attributes.get(SUB_MODEL) == EXCLUSIVE,
        WILDCARD in attributes,
        attributes.get(RESET_EXCLUSIVE) == "true",
        attributes.get(RESET_UNSUBSCRIBE) == "true",
        int(quota) if _number_problem(quota, NO_QUOTA) is None else QUOTA_DEFAULT,
    )


def lite_attribute_problem(name: str, value: str) -> str | None:
    """Return what is wrong with one of ATTRIBUTES, as a sentence for a remark; None when it is legal."""
    if name == BIND_TOPIC:
        return topic_problem(value)
    if name == SUB_MODEL:
        return None if value in SUB_MODELS else f"write {' or '.join(SUB_MODELS)}"
    if name == CLIENT_QUOTA:
        return _number_problem(value, NO_QUOTA)
    if name == MAX_EVENT_COUNT:
        return _number_problem(value, _EVENT_COUNT_MIN)
    if name == WILDCARD:
        return None if value == "true" else "write true, or remove the attribute"
    return None if value in _TRUTHS else "write true or false"


def _number_problem(text: str, least: int) -> str | None:
    digits = text.removeprefix("-")
    if digits.isascii() and digits.isdigit() and len(digits) <= 19 and least <= int(text) <= _NUMBER_MAX:
        return None
    return f"write a whole number, at least {least}"
