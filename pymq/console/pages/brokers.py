"""The list of brokers."""

from __future__ import annotations

from typing import Any

from pymq.client.admin import Admin
from pymq.console.asking.cluster import Cluster
from pymq.console.pages.page import Page, Visit
from pymq.operations.broker.listing import list_brokers


async def brokers(visit: Visit) -> Page:
    """Return all brokers by cluster and name, the silent ones with the reason."""
    records, silent = await all_brokers(visit.cluster)
    return Page(
        "Brokers",
        "brokers.html",
        {"brokers": records},
        ("cluster", "list"),
        {"silent": silent},
        silent | visit.cluster.unreached,
    )


async def all_brokers(cluster: Cluster) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Return a record for each broker; and for a silent one ``name:id`` and the reason. Raises RefusedError."""

    async def ask(admin: Admin) -> tuple[list[dict[str, Any]], dict[str, str]]:
        return await list_brokers(admin, None, may_refuse=False)

    return await cluster.ask("brokers", ask)
