"""Users made, changed and deleted. A secret goes to the brokers alone: into no plan, page, address or audit."""

from __future__ import annotations

from typing import Any, Final

from pymq.client.admin import Admin
from pymq.console.changes.fields import (
    CLUSTER,
    NO,
    SAME,
    TEXT_LENGTH_MAX,
    YES,
    Field,
    Input,
    form_page,
    options_of,
    where_of,
)
from pymq.console.changes.plan import Prepare
from pymq.console.changes.replanned import Records, replanned
from pymq.console.pages.page import Page, Visit
from pymq.console.pages.sections import Column, Kind
from pymq.console.web.parameters import BadRequest, Parameters
from pymq.operations.auth import changes
from pymq.operations.auth.users import users
from pymq.operations.where import Where

SECRET_LENGTH_MAX: Final = 255
_CREATED: Final = (
    Column("user", "User"),
    Column("type", "Type"),
    Column("brokers", "Brokers", Kind.names),
)
_CHANGED: Final = (
    Column("user", "User"),
    Column("before", "Before", Kind.names),
    Column("type", "New type", why_unknown=SAME),
    Column("enabled", "Enabled", Kind.flag, SAME),
    Column("is_secret_new", "New secret", Kind.flag),
    Column("other_administrators", "Other administrators", Kind.number),
    Column("brokers", "Brokers", Kind.names),
)
_DELETED: Final = (*_CHANGED[:2], *_CHANGED[-2:])


async def create_form(visit: Visit) -> Page:
    """Return the form of a new user."""
    fields = [
        Field("user", "User", is_required=True),
        CLUSTER,
        Field("type", "Type", Input.choice, changes.NORMAL, choices=changes.TYPES),
        Field("secret", "Secret", Input.masked, is_required=True),
    ]
    note = f"A user of type {changes.SUPER} may do everything, another one nothing yet: rules say what it may."
    return form_page("New user", fields, ("auth", "user", "create", "NAME", "--write", "FILE"), note)


def create(visit: Visit, given: Parameters) -> Prepare:
    """Return what plans a new user. Raises BadRequest."""
    name = given.text("user", length_max=TEXT_LENGTH_MAX).strip()
    where = where_of(given)
    kind = given.choice("type", changes.NORMAL, changes.TYPES)
    secret = given.text("secret", length_max=SECRET_LENGTH_MAX)
    for field, text in (("user", name), ("secret", secret)):
        if not text:
            raise BadRequest(field, "it is missing")

    async def run(admin: Admin, is_dry: bool) -> Records:
        return [await changes.create_user(admin, where, name, secret, kind, is_dry=is_dry)]

    options = [*(["--super"] if kind == changes.SUPER else []), *options_of(where)]
    command = ("auth", "user", "create", name, "--secret-from", "file:FILE", *options)
    return replanned(f"New user {name}", f"user {name}", command, _CREATED, run, action="auth user create")


async def update_form(visit: Visit) -> Page:
    """Return the form that changes a user."""
    name = visit.path["user"]
    fields = [
        CLUSTER,
        Field("type", "Type", Input.choice, SAME, choices=(SAME, *changes.TYPES)),
        Field("enabled", "Enabled", Input.choice, SAME, choices=(SAME, YES, NO)),
        Field("secret", "Secret", Input.masked, hint=SAME),
    ]
    return form_page(f"Change user {name}", fields, ("auth", "user", "update", name))


def update(visit: Visit, given: Parameters) -> Prepare:
    """Return what plans a change of a user. Raises BadRequest."""
    name, where = visit.path["user"], where_of(given)
    kind = given.choice("type", SAME, (SAME, *changes.TYPES))
    enabled = given.choice("enabled", SAME, (SAME, YES, NO))
    secret = given.text("secret", "", length_max=SECRET_LENGTH_MAX)
    if kind == SAME and enabled == SAME and not secret:
        raise BadRequest("form", "nothing is to change: fill in a field")

    async def run(admin: Admin, is_dry: bool) -> Records:
        before = await _before(admin, where, name)
        changed = await changes.update_user(
            admin,
            where,
            name,
            kind=None if kind == SAME else kind,
            enabled=None if enabled == SAME else enabled == YES,
            secret=secret or None,
            is_dry=is_dry,
        )
        return [changed | before]

    options = [*(["--type", kind] if kind != SAME else []), *(["--secret-from", "file:FILE"] if secret else [])]
    options += {YES: ["--enable"], NO: ["--disable"]}.get(enabled, [])
    command = ("auth", "user", "update", name, *options, *options_of(where))
    return replanned(f"Change user {name}", f"user {name}", command, _CHANGED, run, action="auth user update")


async def delete_form(visit: Visit) -> Page:
    """Return the form that deletes a user."""
    name = visit.path["user"]
    fields = [CLUSTER]
    return form_page(f"Delete user {name}", fields, ("auth", "user", "delete", name), "Its rules go with it.")


def delete(visit: Visit, given: Parameters) -> Prepare:
    """Return what plans the end of a user and its rules. Raises BadRequest."""
    name, where = visit.path["user"], where_of(given)

    async def run(admin: Admin, is_dry: bool) -> Records:
        before = await _before(admin, where, name)
        return [await changes.delete_user(admin, where, name, is_dry=is_dry) | before]

    command = ("auth", "user", "delete", name, *options_of(where))
    return replanned(
        f"Delete user {name}", f"user {name}", command, _DELETED, run, confirm=name, action="auth user delete"
    )


async def _before(admin: Admin, where: Where, name: str) -> dict[str, Any]:
    """Return what a user is now, and how many others could still do everything."""
    known = await users(admin, where, None)
    others = {each["user"] for each in known if each["type"] == changes.SUPER and each["enabled"]} - {name}
    return {
        "before": [
            f"{each['type']}, {'enabled' if each['enabled'] else 'disabled'}" for each in known if each["user"] == name
        ],
        "other_administrators": len(others),
    }
