"""The list of brokers."""

from __future__ import annotations

from typing import Any, Final

from pymq.client.admin import Admin
from pymq.console.asking.cluster import Cluster
from pymq.console.pages.lists import cut
from pymq.console.pages.page import Page, Visit
from pymq.console.pages.sections import Column
from pymq.operations.broker.listing import list_brokers

_SEARCHED: Final = (Column("broker", "Broker"),)


async def brokers(visit: Visit) -> Page:
    """Return the brokers whose names have ``q`` in them, by cluster and name, the silent ones with the reason."""
    records, silent = await all_brokers(visit.cluster)
    rows = cut(records, visit.parameters, "broker", {})
    return Page(
        "Brokers",
        "brokers.html",
        {"brokers": rows.rows, **rows.as_record()},
        ("cluster", "list"),
        {"silent": silent, "cut": rows, "columns": _SEARCHED},
        silent | visit.cluster.unreached,
    )


async def all_brokers(cluster: Cluster) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Return a record for each broker; and for a silent one ``name:id`` and the reason. Raises RefusedError."""

    async def ask(admin: Admin) -> tuple[list[dict[str, Any]], dict[str, str]]:
        return await list_brokers(admin, None, may_refuse=False)

    return await cluster.ask("brokers", ask)
