"""Checks and changes of consumer groups' attributes."""

from __future__ import annotations

import msgspec

from pymq.errors import Refusal
from pymq.model import lite_groups
from pymq.model.priorities import FACTOR_ATTRIBUTE, FACTOR_MAX
from pymq.model.tables import SubscriptionGroupConfig
from pymq.wire.codes import ResponseCode


def with_changed_attributes(
    before: SubscriptionGroupConfig | None, group: SubscriptionGroupConfig
) -> SubscriptionGroupConfig:
    """Return the group with the attributes that it has already and the changes in it: ``+name``, ``-name`` or ``name``.

    Raises Refusal(INVALID_PARAMETER).
    """
    kept = before.attributes if before is not None else {}
    if not group.attributes:
        return msgspec.structs.replace(group, attributes=kept) if kept else group
    result = dict(kept)
    for signed, value in group.attributes.items():
        name = signed.removeprefix("+")
        if signed.startswith("-"):
            result.pop(signed[1:], None)
        elif result.get(name) != value or signed != name:
            _check(name, value)
            result[name] = value
    return msgspec.structs.replace(group, attributes=result)


def _check(name: str, value: str) -> None:
    if name in lite_groups.ATTRIBUTES:
        problem = lite_groups.lite_attribute_problem(name, value)
        if problem is not None:
            raise _invalid(f"the attribute {name}={value[:40]}: {problem}")
        return
    if name != FACTOR_ATTRIBUTE:
        known = ", ".join((FACTOR_ATTRIBUTE, *lite_groups.ATTRIBUTES))
        raise _invalid(f"the attribute {name[:40]!r} is unknown: use one of {known}")
    if not value.isascii() or not value.isdigit() or len(value) > 3 or int(value) > FACTOR_MAX:
        raise _invalid(f"the attribute {name}={value[:40]}: write a whole number from 0 to {FACTOR_MAX}")


def _invalid(text: str) -> Refusal:
    return Refusal(ResponseCode.INVALID_PARAMETER, text)
