"""The list of consumer groups."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, Final

from pymq.client.admin import Admin
from pymq.console.asking.large import lags_kept_ms
from pymq.console.history.rings import Kind
from pymq.console.pages.lists import Row, cut
from pymq.console.pages.page import Page, Visit
from pymq.console.pages.sampled import sample_note, sparks, trends, with_rates
from pymq.model.names import is_system_group
from pymq.operations.group.listing import list_members, with_lags

APPLICATIONS, ALL, OFFLINE, BEHIND = "applications", "all", "off-line", "behind"
SHOWN: Final = (APPLICATIONS, OFFLINE, BEHIND, ALL)
RATE: Final = "consumed/s"
SORTS: Final = {"name": "group", "lag": "lag", "members": "members", RATE: "out_per_second"}


async def groups(visit: Visit) -> Page:
    """Return the groups that ``show`` names, whose names have ``q`` in them."""
    show = visit.parameters.choice("show", APPLICATIONS, SHOWN)
    sight = visit.sight
    # Samples are without system groups.
    known = sight.lags if sight is not None and show != ALL else lambda: None
    records, lags = await asyncio.gather(
        visit.cluster.ask("groups", _every_group, may_be_old=True),
        visit.cluster.ask(
            "lags",
            lambda admin: admin.groups.all_lags(),
            may_be_old=True,
            known=known,
            kept_at_least_ms=lags_kept_ms,
        ),
    )
    records = with_lags(records, lags)
    if visit.parameters.text("sort", "") == RATE:
        records = with_rates(sight, Kind.group, "group", records)
    rows = cut(records, visit.parameters, "group", SORTS, keep=lambda row: _is_kept(row, show))
    rows = replace(rows, rows=with_rates(sight, Kind.group, "group", rows.rows))
    return Page(
        "Groups",
        "groups.html",
        {"groups": rows.rows, **rows.as_record()},
        ("group", "list", *(["--all"] if show == ALL else [])),
        {
            "cut": rows,
            "show": show,
            "shows": SHOWN,
            "sorts": SORTS,
            "sparks": sparks(sight, Kind.group, "group", rows.rows),
            "samples": sample_note(sight, Kind.group),
            "trends": trends(sight, "group", rows.rows),
        },
        visit.cluster.unreached,
    )


async def _every_group(admin: Admin) -> list[dict[str, Any]]:
    return await list_members(admin, True)


def _is_kept(row: Row, show: str) -> bool:
    if show == ALL:
        return True
    if is_system_group(row["group"]):
        return False
    if show == OFFLINE:
        return bool(row["members"] == 0)
    return show == APPLICATIONS or bool(row["lag"])
