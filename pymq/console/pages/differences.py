"""Settings that differ between the brokers of a cluster."""

from __future__ import annotations

from typing import Any, Final

from pymq.client.admin import Admin
from pymq.console.pages.lists import cut
from pymq.console.pages.page import Page, Visit
from pymq.console.pages.sections import NO_MATCH, Column, Table
from pymq.operations.settings.changes import diff
from pymq.operations.settings.servers import Found, Targets

_COLUMNS: Final = (
    Column("key", "Key"),
    Column("server", "Broker"),
    Column("value", "Value", why_unknown="this broker has no such key"),
    Column("origin", "Origin", why_unknown="an Apache server does not say it"),
)


async def differences(visit: Visit) -> Page:
    """Return a row for each broker and each key whose values are not equal, but for names, ports and directories."""

    async def ask(admin: Admin) -> Found:
        found = await diff(admin, Targets(), "")
        found.raise_if_all_failed()
        return found

    found = await visit.cluster.ask("differences", ask)
    is_one = len(found.done) < 2
    records: list[dict[str, Any]] = [] if is_one else found.records
    rows = cut(records, visit.parameters, "key", {"key": "key"})
    empty = "There is one broker that answers: nothing to compare." if is_one else "No setting differs."
    table = Table("Settings", _COLUMNS, rows.rows, NO_MATCH if rows.search else empty, rows)
    return Page(
        "Settings that differ",
        "sections.html",
        {"settings": rows.rows, "servers": found.done, **rows.as_record()},
        ("config", "diff"),
        {"sections": [table]},
        found.unreached | visit.cluster.unreached,
    )
