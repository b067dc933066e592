"""One broker: its figures, its copies, and its settings."""

from __future__ import annotations

from typing import Any, Final

from pymq.console.history.rings import Kind as Of
from pymq.console.history.rings import Subject
from pymq.console.history.section import charts_of
from pymq.console.pages.brokers import all_brokers
from pymq.console.pages.page import Page, Visit
from pymq.console.pages.sections import Column, Kind, Values
from pymq.console.pages.settings import FoundSettings, find_settings, with_settings
from pymq.errors import PymqError
from pymq.model.route import MASTER_ID
from pymq.operations.auth.proof import is_unproven
from pymq.operations.broker.registered import not_registered
from pymq.operations.settings.servers import Targets

_SILENT: Final = "it does not answer"
_FIGURES: Final = (
    Column("role", "Role", why_unknown=_SILENT),
    Column("address", "Address"),
    Column("cluster", "Cluster"),
    Column("version", "Version", why_unknown=_SILENT),
    Column("in_per_second", "In a second", Kind.rate, _SILENT),
    Column("out_per_second", "Out a second", Kind.rate, _SILENT),
    Column("log_start", "Log begins at", Kind.number, _SILENT),
    Column("log_end", "Log ends at", Kind.number, _SILENT),
    Column("epoch", "Epoch", Kind.number, "it counts none"),
)
_MASTER: Final = (
    Column("in_sync_slaves", "Slaves in sync", Kind.number, _SILENT),
    Column("connected_slaves", "Slaves connected", Kind.number, _SILENT),
)
_NO_MASTER: Final = "its master or itself does not say it"
_SLAVE: Final = (
    Column("lag_bytes", "Behind its master", Kind.size, _NO_MASTER),
    Column("lag_messages", "Messages behind", Kind.number, _NO_MASTER),
    Column("lag_ms", "Time behind", Kind.span, _NO_MASTER),
    Column("in_sync", "In sync", Kind.flag, _NO_MASTER),
)


def registered(records: list[dict[str, Any]], name: str, number: str) -> dict[str, Any]:
    """Return the record of a broker. Raises NotFoundError for one that no name server lists.

    Only its address is asked: a browser may write any address in place of a name.
    """
    found = next((each for each in records if (each["broker"], str(each["broker_id"])) == (name, number)), None)
    if found is None:
        raise not_registered(f"{name}:{number}")
    return found


async def broker(visit: Visit) -> Page:
    """Return the broker that the address names. Raises NotFoundError."""
    name, number = visit.path["broker"], visit.path["id"]
    label = f"{name}:{number}"
    records, silent = await all_brokers(visit.cluster)
    found = registered(records, name, number)
    missing = {label: silent[label]} if label in silent else {}
    settings: FoundSettings | None = None
    if not missing:
        try:
            settings = await find_settings(visit, Targets((found["address"],)))
        except PymqError as error:
            if is_unproven(error):
                raise
            missing["settings"] = str(error)
    charts = await charts_of(visit.sight, Subject(Of.broker, found["address"]), visit.clock.now_ms())
    copies = _MASTER if found["broker_id"] == MASTER_ID else _SLAVE
    return Page(
        f"Broker {label}",
        "broker.html",
        with_settings({"broker": found, "lastHour": charts.as_record()}, settings),
        settings.command("-b", label) if settings else ("broker", "status", label),
        {
            "charts": charts,
            "figures": Values("Figures", _FIGURES, found),
            "copies": Values("Replication", copies, found),
            "settings": settings,
        },
        missing,
    )
