"""The list of brokers."""

from __future__ import annotations

from pymq.client.admin import Admin
from pymq.console.pages.page import Page, Visit
from pymq.operations.broker.listing import list_brokers


async def brokers(visit: Visit) -> Page:
    """Return all brokers by cluster and name, the silent ones with the reason."""

    async def ask(admin: Admin) -> tuple[list[dict[str, object]], dict[str, str]]:
        return await list_brokers(admin, None)

    records, silent = await visit.cluster.ask("brokers", ask)
    return Page(
        "Brokers",
        "brokers.html",
        {"brokers": records},
        ("cluster", "list"),
        {"silent": silent},
        silent | visit.cluster.unreached,
    )
