"""The list of topics."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from pymq.console.history.rings import Kind
from pymq.console.pages.lists import cut
from pymq.console.pages.page import Page, Visit
from pymq.console.pages.sampled import sample_note, sparks, with_rates
from pymq.operations.topic.table import APPLICATION, KINDS, topic_table

ALL: Final = "all"
RATE: Final = "in/s"
SORTS: Final = {"name": "topic", "stored": "stored", "last": "last_ms", RATE: "in_per_second"}


async def topics(visit: Visit) -> Page:
    """Return the topics of a kind, ``kind``, whose names have ``q`` in them."""
    kind = visit.parameters.choice("kind", APPLICATION, (*KINDS, ALL))
    table = await visit.cluster.ask("topic table", topic_table)
    sight = visit.sight
    is_by_rate = visit.parameters.text("sort", "") == RATE
    records = with_rates(sight, Kind.topic, "topic", table.rows) if is_by_rate else table.rows
    rows = cut(records, visit.parameters, "topic", SORTS, keep=lambda row: kind in (ALL, row["kind"]))
    rows = replace(rows, rows=with_rates(sight, Kind.topic, "topic", rows.rows))
    missing = visit.cluster.unreached | {
        broker: f"stored messages are unknown: {why}" for broker, why in table.without_ends.items()
    }
    return Page(
        "Topics",
        "topics.html",
        {"topics": rows.rows, **rows.as_record()},
        ("topic", "list", *(["--all"] if kind != APPLICATION else [])),
        {
            "cut": rows,
            "kind": kind,
            "kinds": (*KINDS, ALL),
            "sorts": SORTS,
            "sparks": sparks(sight, Kind.topic, "topic", rows.rows),
            "samples": sample_note(sight, Kind.topic),
        },
        missing,
    )
