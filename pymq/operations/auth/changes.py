"""Users and rules made, changed and deleted: each is checked on all brokers first, then changed there.

``before_change`` is called between the two: it may ask a person, or write the file with a new user's secret. What it
raises leaves everything as it is. With ``is_dry`` nothing is called and nothing is changed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pymq.client.admin import Admin
from pymq.operations.auth import users as work
from pymq.operations.auth.users import CUSTOM, DEFAULT, ENABLED
from pymq.operations.where import Where
from pymq.wire.bodies_auth import AclEntryInfo

SUPER, NORMAL = "Super", "Normal"
TYPES: Final = (NORMAL, SUPER)
_DISABLED: Final = "disable"


def _nothing() -> None:
    """Ask nobody."""


async def create_user(
    admin: Admin,
    where: Where,
    name: str,
    secret: str,
    kind: str = NORMAL,
    *,
    is_dry: bool,
    before_change: Callable[[], None] = _nothing,
) -> dict[str, Any]:
    """Make a user of a type; it may do nothing yet. Raises UnsafeError when one of the brokers has it."""
    await work.check_there(admin, where, name, is_there=False)
    if not is_dry:
        before_change()
    return await work.change(
        admin,
        where,
        {"user": name, "type": kind},
        lambda address: admin.auth.create_user(address, name, secret, user_type=kind),
        dry_run=is_dry,
    )


async def update_user(
    admin: Admin,
    where: Where,
    name: str,
    *,
    kind: str | None = None,
    enabled: bool | None = None,
    secret: str | None = None,
    is_dry: bool,
    before_change: Callable[[], None] = _nothing,
) -> dict[str, Any]:
    """Change what is not None. Raises NotFoundError."""
    await work.check_there(admin, where, name, is_there=True)
    if not is_dry:
        before_change()
    status = None if enabled is None else (ENABLED if enabled else _DISABLED)
    return await work.change(
        admin,
        where,
        {"user": name, "type": kind, "enabled": enabled, "is_secret_new": secret is not None},
        lambda address: admin.auth.update_user(address, name, password=secret, user_type=kind, status=status),
        dry_run=is_dry,
    )


async def delete_user(
    admin: Admin, where: Where, name: str, *, is_dry: bool, before_change: Callable[[], None] = _nothing
) -> dict[str, Any]:
    """Delete a user with its rules. Raises NotFoundError."""
    await work.check_there(admin, where, name, is_there=True)
    if not is_dry:
        before_change()
    return await work.change(
        admin, where, {"user": name}, lambda address: admin.auth.delete_user(address, name), dry_run=is_dry
    )


async def put_rule(
    admin: Admin, where: Where, name: str, entry: AclEntryInfo, *, is_default: bool, is_new: bool, is_dry: bool
) -> dict[str, Any]:
    """Give a user a rule about a resource. ``is_new``: it has none yet; else the present one is replaced.

    Raises NotFoundError, and UnsafeError for a new rule that is there.
    """
    level = DEFAULT if is_default else CUSTOM
    what = {
        "user": name,
        "level": level,
        "resource": entry.resource,
        "actions": entry.actions,
        "sources": entry.source_ips or [],
        "effect": entry.decision,
    }
    await work.check_rule(admin, where, name, level, str(entry.resource), is_there=not is_new)
    return await work.change(
        admin,
        where,
        what,
        lambda address: admin.auth.put_acl(address, name, [entry], policy_type=level),
        dry_run=is_dry,
    )


async def delete_rules(
    admin: Admin,
    where: Where,
    name: str,
    resource: str | None,
    *,
    is_default: bool,
    is_dry: bool,
    before_change: Callable[[], None] = _nothing,
) -> dict[str, Any]:
    """Take the rule about a resource from a user; without one all of its rules, of the default level or of both.

    Raises NotFoundError.
    """
    level = DEFAULT if is_default else CUSTOM
    if resource is None:
        await work.check_there(admin, where, name, is_there=True)
    else:
        await work.check_rule(admin, where, name, level, resource, is_there=True)
    if not is_dry:
        before_change()
    of = level if is_default or resource is not None else None
    return await work.change(
        admin,
        where,
        {"user": name, "level": of, "resource": resource},
        lambda address: admin.auth.delete_acl(address, name, policy_type=of, resource=resource),
        dry_run=is_dry,
    )
