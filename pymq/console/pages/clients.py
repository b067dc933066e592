"""All producers and consumers that are connected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pymq.client.admin import Admin
from pymq.console.pages.links import member_path
from pymq.console.pages.lists import Row, cut
from pymq.console.pages.page import Page, Visit
from pymq.console.pages.sections import NO_MATCH, Column, Kind, Table
from pymq.operations.clients import connected_clients


def _path(record: Mapping[str, Any]) -> str | None:
    """Return the path of a member's page. A producer says nothing about itself."""
    return member_path(record["group"], record["client_id"]) if record["kind"] == "consumer" else None


_COLUMNS: Final = (
    Column("client_id", "Client", Kind.link, path=_path),
    Column("kind", "Kind"),
    Column("group", "Group"),
    Column("address", "Address"),
    Column("language", "Language"),
    Column("version", "Version"),
    Column("brokers", "Brokers", Kind.names),
)
_SORTS: Final = {"client_id": "client_id", "group": "group"}


async def clients(visit: Visit) -> Page:
    """Return a row for each client and group."""
    found: list[Row] = await visit.cluster.ask("clients", _every_client)
    rows = cut(found, visit.parameters, "client_id", _SORTS)
    empty = NO_MATCH if rows.search else "No client is connected."
    table = Table("Connected now", _COLUMNS, rows.rows, empty, rows)
    return Page(
        "Clients",
        "sections.html",
        {"clients": rows.rows, **rows.as_record()},
        ("cluster", "clients"),
        {"sections": [table]},
        visit.cluster.unreached,
    )


async def _every_client(admin: Admin) -> list[Row]:
    return await connected_clients(admin, None)
