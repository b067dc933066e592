"""All producers and consumers that are connected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pymq.client.admin import Admin
from pymq.console.pages.links import member_path
from pymq.console.pages.lists import Row
from pymq.console.pages.page import Page, Visit
from pymq.console.pages.sections import Column, Kind, Table
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


async def clients(visit: Visit) -> Page:
    """Return a row for each client and group."""
    found: list[Row] = await visit.cluster.ask("clients", _every_client)
    table = Table("Connected now", _COLUMNS, found, "No client is connected.")
    return Page(
        "Clients", "sections.html", {"clients": found}, ("cluster", "clients"), {"sections": [table]},
        visit.cluster.unreached,
    )  # fmt: skip


async def _every_client(admin: Admin) -> list[Row]:
    return await connected_clients(admin, None)
