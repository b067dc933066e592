"""Rules of users, given, replaced and taken away."""

from __future__ import annotations

from typing import Any, Final

from pymq.client.admin import Admin
from pymq.console.changes.fields import CLUSTER, TEXT_LENGTH_MAX, Field, Input, form_page, options_of, where_of
from pymq.console.changes.plan import Prepare
from pymq.console.changes.replanned import Records, replanned
from pymq.console.pages.page import Page, Visit
from pymq.console.pages.sections import Column, Kind
from pymq.console.web.parameters import BadRequest, Parameters
from pymq.errors import UsageError
from pymq.operations.auth import changes
from pymq.operations.auth.users import CUSTOM, DEFAULT, entry, rules
from pymq.operations.where import Where

ALLOW, DENY = "Allow", "Deny"
ACTIONS_LENGTH_MAX: Final = 255
SOURCES_LENGTH_MAX: Final = 1_024
_PUT: Final = (
    Column("user", "User"),
    Column("resource", "Resource"),
    Column("before", "Before", Kind.names),
    Column("effect", "Effect"),
    Column("actions", "Actions", Kind.names),
    Column("sources", "From", Kind.names),
    Column("level", "Level"),
    Column("brokers", "Brokers", Kind.names),
)
_DELETED: Final = (*_PUT[:3], *_PUT[-2:])


async def put_form(visit: Visit) -> Page:
    """Return the form of a user's rule about a resource."""
    resource = visit.parameters.text("resource", "", length_max=TEXT_LENGTH_MAX)
    level = visit.parameters.choice("level", CUSTOM, (CUSTOM, DEFAULT))
    name = visit.path["user"]
    fields = [
        Field("resource", "Resource", value=resource, hint="Topic:orders, Group:bill*, Cluster:*", is_required=True),
        Field("actions", "Actions", hint="Pub, Sub, Get", is_required=True),
        Field("effect", "Effect", Input.choice, ALLOW, choices=(ALLOW, DENY)),
        Field("sources", "Only from", hint="everywhere, or 10.0.0.0/8, 10.1.2.3"),
        Field("level", "Level", Input.choice, level, choices=(CUSTOM, DEFAULT)),
        CLUSTER,
    ]
    note = "Actions: Pub, Sub, Create, Update, Delete, Get, List, All. A rule about the same resource is replaced."
    return form_page(f"A rule of {name}", fields, ("auth", "acl", "create", name, "RESOURCE", "-a", "ACTION"), note)


def put(visit: Visit, given: Parameters) -> Prepare:
    """Return what plans a rule, new or in place of the one about the same resource. Raises BadRequest."""
    name, where = visit.path["user"], where_of(given)
    is_default = given.choice("level", CUSTOM, (CUSTOM, DEFAULT)) == DEFAULT
    effect = given.choice("effect", ALLOW, (ALLOW, DENY))
    actions = _words(given.text("actions", length_max=ACTIONS_LENGTH_MAX))
    sources = _words(given.text("sources", "", length_max=SOURCES_LENGTH_MAX))
    resource = given.text("resource", length_max=TEXT_LENGTH_MAX).strip()
    try:
        rule = entry(resource, actions, sources, denies=effect == DENY)
    except UsageError as error:
        raise BadRequest("rule", str(error)) from None

    async def run(admin: Admin, is_dry: bool) -> Records:
        before = await _before(admin, where, name, str(rule.resource), is_default=is_default)
        put = await changes.put_rule(
            admin, where, name, rule, is_default=is_default, is_new=not before["before"], is_dry=is_dry
        )
        return [put | before]

    options = [word for action in rule.actions or [] for word in ("-a", action)]
    options += [word for source in rule.source_ips or [] for word in ("--from", source)]
    options += [*(["--deny"] if effect == DENY else []), *(["--default"] if is_default else []), *options_of(where)]

    def command(records: Records) -> tuple[str, ...]:
        word = "update" if records[0]["before"] else "create"
        return ("auth", "acl", word, name, str(rule.resource), *options)

    return replanned(f"A rule of {name}", f"user {name}", command, _PUT, run, action="auth acl put")


async def delete_form(visit: Visit) -> Page:
    """Return the form that takes a rule from a user."""
    name = visit.path["user"]
    resource = visit.parameters.text("resource", "", length_max=TEXT_LENGTH_MAX)
    level = visit.parameters.choice("level", CUSTOM, (CUSTOM, DEFAULT))
    fields = [
        Field("resource", "Resource", value=resource, is_required=True),
        Field("level", "Level", Input.choice, level, choices=(CUSTOM, DEFAULT)),
        CLUSTER,
    ]
    return form_page(f"Take a rule from {name}", fields, ("auth", "acl", "delete", name, "RESOURCE"))


def delete(visit: Visit, given: Parameters) -> Prepare:
    """Return what plans the end of a rule. Raises BadRequest."""
    name, where = visit.path["user"], where_of(given)
    resource = given.text("resource", length_max=TEXT_LENGTH_MAX).strip()
    is_default = given.choice("level", CUSTOM, (CUSTOM, DEFAULT)) == DEFAULT
    if not resource:
        raise BadRequest("resource", "it is missing")

    async def run(admin: Admin, is_dry: bool) -> Records:
        before = await _before(admin, where, name, resource, is_default=is_default)
        gone = await changes.delete_rules(admin, where, name, resource, is_default=is_default, is_dry=is_dry)
        return [gone | before]

    command = ("auth", "acl", "delete", name, resource, *(["--default"] if is_default else []), *options_of(where))
    return replanned(
        f"Take a rule from {name}", f"user {name}", command, _DELETED, run, confirm=resource, action="auth acl delete"
    )


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


async def _before(admin: Admin, where: Where, name: str, resource: str, *, is_default: bool) -> dict[str, Any]:
    """Return what the rule about a resource says now."""
    level = DEFAULT if is_default else CUSTOM
    return {
        "before": [
            f"{each['effect']} {', '.join(each['actions'])} from {', '.join(each['sources']) or 'everywhere'}"
            for each in await rules(admin, where, name)
            if (each["level"], each["resource"]) == (level, resource)
        ]
    }
