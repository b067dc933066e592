"""Name servers: whether they agree, the values that they keep, and their settings."""

from __future__ import annotations

from functools import partial
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
_VALUES: Final = (Column("key", "Key"), Column("value", "Value"))
_ORDERS: Final = (Column("key", "Topic"), Column("value", "Brokers and queues"))
NAMESPACE_LENGTH_MAX: Final = 255


async def name_servers(visit: Visit) -> Page:
    """Return a row for each name server with what it lacks; what they keep in one namespace; and their settings.

    The parameter ``namespace`` chooses it, by default that with the orders of topics.
    """
    namespace = visit.parameters.text("namespace", ORDER_NAMESPACE, length_max=NAMESPACE_LENGTH_MAX).strip()
    found = await visit.cluster.ask("name servers", views)
    missing = {record["address"]: "; ".join(record["problems"]) for record in found if not record["answers"]}
    values: list[dict[str, Any]] = []
    settings: FoundSettings | None = None
    try:
        values = await visit.cluster.ask(("values", namespace), partial(_values, namespace))
        settings = await find_settings(visit, Targets(is_namesrv=True))
        missing = settings.missing | missing
    except PymqError as error:
        if is_unproven(error):
            raise
        missing.setdefault("settings", str(error))
    lists = Lists(visit.parameters)
    is_order = namespace == ORDER_NAMESPACE
    title = "Orders of topics" if is_order else f"Values of {namespace}"
    none = "No topic has an order: pymq topic order sets one." if is_order else "It has none, as far as one says."
    links = [("Set a value", "namesrv/values"), ("Change a setting", "namesrv/settings")]
    shown = {
        "views": lists.table("name_servers", "Name servers", _VIEWS, found, "No name server is given."),
        "values": lists.table("values", title, _ORDERS if is_order else _VALUES, values, none),
        "namespace": namespace,
        "links": links if visit.allows_changes else [],
        "settings": settings,
    }
    return Page(
        "Name servers",
        "namesrv.html",
        with_settings({"namespace": namespace} | lists.as_record(), settings),
        ("namesrv", "status"),
        shown,
        missing,
    )


async def _values(namespace: str, admin: Admin) -> list[dict[str, Any]]:
    values = await admin.namesrv.values(namespace)
    return [{"key": key, "value": value} for key, value in sorted(values.items())]
