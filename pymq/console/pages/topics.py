"""The list of topics."""

from __future__ import annotations

from typing import Final

from pymq.console.pages.lists import cut
from pymq.console.pages.page import Page, Visit
from pymq.operations.topic.table import APPLICATION, KINDS, topic_table

ALL: Final = "all"
SORTS: Final = {"name": "topic", "stored": "stored", "last": "last_ms"}


async def topics(visit: Visit) -> Page:
    """Return the topics of a kind, ``kind``, whose names have ``q`` in them."""
    kind = visit.parameters.choice("kind", APPLICATION, (*KINDS, ALL))
    table = await visit.cluster.ask("topic table", topic_table)
    rows = cut(table.rows, visit.parameters, "topic", SORTS, keep=lambda row: kind in (ALL, row["kind"]))
    missing = visit.cluster.unreached | {
        broker: f"stored messages are unknown: {why}" for broker, why in table.without_ends.items()
    }
    return Page(
        "Topics",
        "topics.html",
        {"topics": rows.rows, "total": rows.total, "page": rows.number, "pages": rows.page_count},
        ("topic", "list", *(["--all"] if kind != APPLICATION else [])),
        {"cut": rows, "kind": kind, "kinds": (*KINDS, ALL), "sorts": SORTS},
        missing,
    )
