"""The audit: who tried to change what, the newest first."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any, Final

from pymq.console.audit import SHOWN_COUNT_MAX, Attempt
from pymq.console.history.rings import CLUSTER
from pymq.console.history.sight import runtime_of_each_cluster
from pymq.console.pages.lists import cut
from pymq.console.pages.page import Page, Visit
from pymq.console.pages.sections import Column, Kind, Table

_COLUMNS: Final = (
    Column("time_ms", "When", Kind.time),
    Column("person", "Person", why_unknown="the cluster checks no users"),
    Column("address", "Address"),
    Column("action", "Action"),
    Column("subject", "Subject"),
    Column("result", "Result"),
    Column("after", "What it did", why_unknown="nothing, or it is not known"),
)
TEXT_LENGTH_MAX: Final = 500


class AuditPage:
    """Makes the page of a console with changes. ``problem``: why the last line is not in the file."""

    def __init__(self, newest: Iterable[Attempt], problem: Callable[[], str]) -> None:
        self._newest = newest
        self._problem = problem

    async def page(self, visit: Visit) -> Page:
        """Return the attempts in one context. A person who may not see the cluster gets a RefusedError."""
        await visit.cluster.ask(("may see", CLUSTER), runtime_of_each_cluster)
        found = [_row(each) for each in self._newest if each.context == visit.path["context"]]
        rows = cut(found[::-1], visit.parameters, "subject", {"when": "order"}, keep=lambda row: True)
        problem = self._problem()
        return Page(
            "Audit",
            "audit.html",
            {"attempts": rows.rows, "total": rows.total, "page": rows.number, "pages": rows.page_count},
            ("--version",),
            {
                "cut": rows,
                "table": Table("Attempts", _COLUMNS, rows.rows, "Nobody has tried to change anything since the start."),
                "count_max": SHOWN_COUNT_MAX,
            },
            {"file": problem} if problem else {},
        )


def _row(attempt: Attempt) -> dict[str, Any]:
    after = None if attempt.after is None else json.dumps(attempt.after, default=str)[:TEXT_LENGTH_MAX]
    return asdict(attempt) | {"person": attempt.person or None, "after": after, "order": -attempt.time_ms}
