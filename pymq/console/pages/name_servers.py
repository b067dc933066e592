"""Name servers, and whether they agree."""

from __future__ import annotations

from typing import Final

from pymq.console.pages.page import Page, Visit
from pymq.console.pages.sections import Column, Kind, Table
from pymq.operations.namesrv import views

_COLUMNS: Final = (
    Column("address", "Address"),
    Column("answers", "Answers", Kind.flag),
    Column("brokers", "Brokers", Kind.number, "it does not answer"),
    Column("topics", "Topics", Kind.number, "it does not answer"),
    Column("problems", "Problems", Kind.names),
)


async def name_servers(visit: Visit) -> Page:
    """Return a row for each name server, with what it lacks."""
    found = await visit.cluster.ask("name servers", views)
    table = Table("Name servers", _COLUMNS, found, "No name server is given.")
    silent = {record["address"]: "; ".join(record["problems"]) for record in found if not record["answers"]}
    return Page(
        "Name servers", "sections.html", {"name_servers": found}, ("namesrv", "list"), {"sections": [table]}, silent
    )
