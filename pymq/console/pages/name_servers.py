"""Name servers: whether they agree, the orders of topics that they keep, and their settings."""

from __future__ import annotations

from typing import Any, Final

from pymq.client.admin import Admin
from pymq.console.pages.page import Page, Visit
from pymq.console.pages.sections import Column, Kind, Lists
from pymq.console.pages.settings import FoundSettings, find_settings, with_settings
from pymq.errors import PymqError
from pymq.operations.auth.proof import is_unproven
from pymq.operations.namesrv import views
from pymq.operations.settings.servers import Targets
from pymq.operations.topic.order import ORDER_NAMESPACE

_VIEWS: Final = (
    Column("address", "Address"),
    Column("answers", "Answers", Kind.flag),
    Column("brokers", "Brokers", Kind.number, "it does not answer"),
    Column("topics", "Topics", Kind.number, "it does not answer"),
    Column("problems", "Problems", Kind.names),
)
_VALUES: Final = (Column("key", "Topic"), Column("value", "Brokers and queues"))


async def name_servers(visit: Visit) -> Page:
    """Return a row for each name server with what it lacks; what they keep; and their settings."""
    found = await visit.cluster.ask("name servers", views)
    missing = {record["address"]: "; ".join(record["problems"]) for record in found if not record["answers"]}
    values: list[dict[str, Any]] = []
    settings: FoundSettings | None = None
    try:
        values = await visit.cluster.ask("orders of topics", _orders)
        settings = await find_settings(visit, Targets(is_namesrv=True))
        missing = settings.missing | missing
    except PymqError as error:
        if is_unproven(error):
            raise
        missing.setdefault("settings", str(error))
    lists = Lists(visit.parameters)
    none = "No topic has an order: pymq topic order sets one."
    shown = {
        "views": lists.table("name_servers", "Name servers", _VIEWS, found, "No name server is given."),
        "orders": lists.table("orders", "Orders of topics", _VALUES, values, none),
        "settings": settings,
    }
    return Page(
        "Name servers",
        "namesrv.html",
        with_settings(lists.as_record(), settings),
        ("namesrv", "status"),
        shown,
        missing,
    )


async def _orders(admin: Admin) -> list[dict[str, Any]]:
    values = await admin.namesrv.values(ORDER_NAMESPACE)
    return [{"key": key, "value": value} for key, value in sorted(values.items())]
