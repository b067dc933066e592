"""The settings of servers as a searched table: value, origin, default, and what each means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from pymq.client.admin import Admin
from pymq.console.pages.lists import Cut, cut
from pymq.console.pages.page import Visit
from pymq.console.pages.sections import Column, Kind, Table
from pymq.operations.settings.changes import show
from pymq.operations.settings.servers import Found, Targets

_APACHE: Final = "an Apache server does not say it"
_SERVER: Final = Column("server", "Server")
_COLUMNS: Final = (
    Column("key", "Key"),
    Column("value", "Value"),
    Column("origin", "Origin", why_unknown=_APACHE),
    Column("default", "Default", why_unknown="it is known for keys and servers of PyMQ alone"),
    Column("changeable", "May change now", Kind.flag, _APACHE),
    Column("meaning", "Meaning", why_unknown="PyMQ has no such key"),
)


@dataclass(frozen=True, slots=True)
class FoundSettings:
    """Settings that a page shows: a page of rows, and the servers that did not answer with the reason."""

    rows: Cut
    only_changed: bool
    missing: dict[str, str]

    @property
    def table(self) -> Table:
        """The table of the rows."""
        several = [_SERVER] if len({record["server"] for record in self.rows.rows}) > 1 else []
        is_all = self.only_changed and not self.rows.search
        empty = "No value differs from its default." if is_all else "No key has this text."
        return Table("Settings", (*several, *_COLUMNS), self.rows.rows, empty)

    def command(self, *server: str) -> tuple[str, ...]:
        """Return the command line that shows the same of the server that these options name."""
        text = [self.rows.search] if self.rows.search else []
        return ("config", "show", *text, "--origin", *(["--changed"] if self.only_changed else []), *server)


def with_settings(data: dict[str, Any], settings: FoundSettings | None) -> dict[str, Any]:
    """Return a page's data with its settings, and under ``lists`` which page of how many they are."""
    lists: dict[str, Any] = data.get("lists", {})
    if settings is None:
        return data | {"settings": [], "lists": lists}
    return data | {"settings": settings.rows.rows, "lists": lists | {"settings": settings.rows.as_record()}}


async def find_settings(visit: Visit, targets: Targets) -> FoundSettings:
    """Return the settings that the parameters ``q``, ``changed`` and ``page`` choose.

    Raises the first server's error when none answers, BadRequest.
    """
    only_changed = visit.parameters.flag("changed")

    async def ask(admin: Admin) -> Found:
        found = await show(admin, targets, "", changed=only_changed)
        found.raise_if_all_failed()
        return found

    found = await visit.cluster.ask(("settings", targets, only_changed), ask)
    rows = cut(found.records, visit.parameters, "key", {"key": "key"})
    return FoundSettings(rows, only_changed, found.unreached)
