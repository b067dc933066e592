"""Users and their rules, and why a user may do something."""

from __future__ import annotations

from typing import Any, Final

from pymq.client.admin import Admin
from pymq.console.pages.links import user_path
from pymq.console.pages.page import Page, Visit
from pymq.console.pages.sections import Column, Kind, Lists, Table, Values
from pymq.errors import PymqError, RefusedError
from pymq.operations.auth.decision import Asked, explained, rules_of_broker
from pymq.operations.auth.users import keeps_no_users, rules, users
from pymq.operations.where import Where

ACTIONS: Final = ("Pub", "Sub", "Create", "Update", "Delete", "Get", "List")
NAME_LENGTH_MAX: Final = 255
LOOPBACK: Final = "127.0.0.1"
_USERS: Final = (
    Column("user", "User", Kind.link, path=lambda record: user_path(record["user"])),
    Column("type", "Type"),
    Column("enabled", "Enabled", Kind.flag),
    Column("brokers", "Brokers", Kind.names),
)
_RULES: Final = (
    Column("user", "User"),
    Column("resource", "Resource"),
    Column("actions", "Actions", Kind.names),
    Column("effect", "Effect"),
    Column("sources", "From", Kind.names),
    Column("level", "Level"),
    Column("brokers", "Brokers", Kind.names),
)
_DECISION: Final = (
    Column("allowed", "Allowed", Kind.flag),
    Column("why", "Why"),
    Column("user", "User"),
    Column("action", "Action"),
    Column("resource", "Resource"),
    Column("source", "From"),
)
_STEPS: Final = (
    Column("applies", "Applies", Kind.flag),
    Column("level", "Level"),
    Column("rule", "Rule"),
    Column("why_not", "Why not", why_unknown="it applies"),
)
_OFF: Final = "The brokers keep no users: authenticationEnabled=true and authorizationEnabled=true turn this on."


async def users_page(visit: Visit) -> Page:
    """Return the users and rules of all brokers, and the decision about the one request that the parameters name."""
    name = visit.parameters.text("user", "", length_max=NAME_LENGTH_MAX)
    action = visit.parameters.choice("action", "Pub", ACTIONS)
    resource = visit.parameters.text("resource", "", length_max=NAME_LENGTH_MAX)
    source = visit.parameters.text("from", LOOPBACK, length_max=NAME_LENGTH_MAX)
    missing: dict[str, str] = {}
    found: list[dict[str, Any]] = []
    known: list[dict[str, Any]] = []
    is_on = True
    try:
        found, known = await visit.cluster.ask("users", _users_and_rules)
    except RefusedError as error:
        if not keeps_no_users(error):
            raise
        is_on = False
    lists = Lists(visit.parameters)
    decision: dict[str, Any] | None = None
    parts: list[Values | Table] = []
    if name and resource:
        try:
            decision = await _decide(visit, name, action, resource, source)
        except PymqError as error:
            missing["decision"] = str(error)
        else:
            title = f"May {name} do {action} on {resource}?"
            parts = [
                Values(title, _DECISION, decision),
                lists.table("steps", "Rules in their order", _STEPS, decision["rules"], "It has none."),
            ]
    parts += [
        lists.table("users", "Users", _USERS, found, "No users: pymq auth user create makes one." if is_on else _OFF),
        lists.table(
            "rules", "Rules", _RULES, known, "No rules: only users of type Super may do anything." if is_on else _OFF
        ),
    ]
    return Page(
        "Users",
        "users.html",
        {"users": found, "rules": known, "decision": decision},
        ("auth", "check", name, action, resource) if decision else ("auth", "user", "list"),
        {
            "sections": parts,
            "asked": {"user": name, "action": action, "resource": resource, "from": source},
            "actions": ACTIONS,
            "links": [("New user", "new/user")] if is_on and visit.allows_changes else [],
        },
        missing | visit.cluster.unreached,
    )


async def _users_and_rules(admin: Admin) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    where = Where(sorted({target.cluster for target in await admin.cluster.masters()}), ())
    known = await rules(admin, where)  # first: its refusal says whether there are users
    return await users(admin, where, None), known


async def _decide(visit: Visit, name: str, action: str, resource: str, source: str) -> dict[str, Any]:
    asked = Asked(name)  # never a file: a visitor's text names a user alone

    async def ask(admin: Admin) -> dict[str, Any]:
        user, policy = await rules_of_broker(admin, None, asked)
        return explained(user, policy, action, resource, source)

    return await visit.cluster.ask(("decision", name, action, resource, source), ask)
