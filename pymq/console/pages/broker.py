"""One broker: its figures, its copies, and its settings."""

from __future__ import annotations

from typing import Final

from pymq.console.history.rings import Kind as Of
from pymq.console.history.rings import Subject
from pymq.console.history.section import charts_of
from pymq.console.pages.brokers import all_brokers
from pymq.console.pages.page import Page, Visit
from pymq.console.pages.sections import Column, Kind, Values
from pymq.console.pages.settings import FoundSettings, find_settings
from pymq.errors import NotFoundError, PymqError
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


async def broker(visit: Visit) -> Page:
    """Return the broker that the address names. Raises NotFoundError."""
    name, number = visit.path["broker"], int(visit.path["id"])
    records, silent = await all_brokers(visit.cluster)
    found = next((each for each in records if (each["broker"], each["broker_id"]) == (name, number)), None)
    if found is None:
        raise NotFoundError(f"no broker {name}:{number} is registered at the name servers")
    label = f"{name}:{number}"
    missing = {label: silent[label]} if label in silent else {}
    settings: FoundSettings | None = None
    if not missing:
        try:
            settings = await find_settings(visit, Targets((found["address"],)))
        except PymqError as error:
            missing["settings"] = str(error)
    charts = await charts_of(visit.sight, Subject(Of.broker, found["address"]), visit.clock.now_ms())
    copies = _MASTER if number == 0 else _SLAVE
    return Page(
        f"Broker {label}",
        "broker.html",
        {"broker": found, "settings": settings.rows.rows if settings else [], "lastHour": charts.as_record()},
        settings.command("-b", label) if settings else ("broker", "status", label),
        {
            "charts": charts,
            "figures": Values("Figures", _FIGURES, found),
            "copies": Values("Replication", copies, found),
            "settings": settings,
        },
        missing,
    )
