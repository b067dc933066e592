"""One user: its state on each broker, and its rules."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlencode

from pymq.client.admin import Admin
from pymq.console.pages.links import user_path
from pymq.console.pages.page import Page, Visit
from pymq.console.pages.sections import Column, Kind, Lists, Values
from pymq.errors import NotFoundError, RefusedError
from pymq.operations.auth.users import keeps_no_users, user
from pymq.operations.where import Where

_ABOUT: Final = (
    Column("user", "User"),
    Column("type", "Type"),
    Column("enabled", "Enabled", Kind.flag),
    Column("differs", "Differs between brokers", Kind.flag),
    Column("brokers", "Brokers", Kind.names),
)
_RULE: Final = (
    Column("actions", "Actions", Kind.names),
    Column("effect", "Effect"),
    Column("sources", "From", Kind.names),
    Column("level", "Level"),
    Column("brokers", "Brokers", Kind.names),
)


async def user_page(visit: Visit) -> Page:
    """Return the user that the address names. Raises NotFoundError."""
    name = visit.path["user"]

    async def ask(admin: Admin) -> dict[str, Any]:
        where = Where(sorted({target.cluster for target in await admin.cluster.masters()}), ())
        return await user(admin, where, name)

    try:
        found = await visit.cluster.ask(("user", name), ask)
    except RefusedError as error:
        if keeps_no_users(error):
            raise NotFoundError("the brokers keep no users") from None
        raise
    lists = Lists(visit.parameters)
    resource = Column("resource", "Resource", Kind.link if visit.allows_changes else Kind.text, path=_rule_path)
    rules = lists.table("rules", "Rules", (resource, *_RULE), found["rules"], "It has none: it may do nothing.")
    path = user_path(name)
    changes = [
        ("Change it", f"{path}/update"),
        ("Delete it", f"{path}/delete"),
        ("New rule", f"{path}/rule"),
        ("Take a rule away", f"{path}/rule/delete"),
    ]
    return Page(
        f"User {name}",
        "sections.html",
        found | lists.as_record(),
        ("auth", "user", "show", name),
        {"sections": [Values("State", _ABOUT, found), rules], "links": changes if visit.allows_changes else []},
        visit.cluster.unreached,
    )


def _rule_path(rule: Any) -> str:
    """Return the address of the form that replaces a rule, or takes it away."""
    query = urlencode({"resource": rule["resource"], "level": rule["level"]}, errors="surrogatepass")
    return f"{user_path(rule['user'])}/rule?{query}"
