"""The list of topics."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import replace
from typing import Final

from pymq.client.admin import Admin
from pymq.console.asking.large import ends_kept_ms
from pymq.console.history.rings import Kind
from pymq.console.pages.lists import Cut, Row, cut
from pymq.console.pages.page import Page, Visit
from pymq.console.pages.sampled import sample_note, sparks, with_rates
from pymq.errors import PymqError
from pymq.operations.topic.table import (
    APPLICATION,
    KINDS,
    Ends,
    TopicTable,
    ends_of,
    ends_of_all,
    topic_table,
)

ALL: Final = "all"
NAME, RATE = "name", "in/s"
SORTS: Final = {NAME: "topic", "stored": "stored", "last": "last_ms", RATE: "in_per_second"}


async def topics(visit: Visit) -> Page:
    """Return the topics of a kind, ``kind``, whose names have ``q`` in them.

    In the order of names, only the ends of the topics that are shown are asked for.
    """
    kind = visit.parameters.choice("kind", APPLICATION, (*KINDS, ALL))
    sort = visit.parameters.choice("sort", NAME, SORTS)
    table = await visit.cluster.ask("topic table", topic_table, may_be_old=True)
    sight = visit.sight

    def find(records: list[Row]) -> Cut:
        return cut(records, visit.parameters, "topic", SORTS, keep=lambda row: kind in (ALL, row["kind"]))

    if sort == NAME:
        rows = find(table.rows)
        ends, missing = await _known_ends(_ends_of(visit, table, [row["topic"] for row in rows.rows]))
    else:
        known = sight.ends if sight is not None else lambda: None
        asked = visit.cluster.ask("ends", ends_of_all, may_be_old=True, known=known, kept_at_least_ms=ends_kept_ms)
        ends, missing = await _known_ends(asked)
        records = table.with_ends(table.rows, ends)
        rows = find(with_rates(sight, Kind.topic, "topic", records) if sort == RATE else records)
    rows = replace(rows, rows=with_rates(sight, Kind.topic, "topic", table.whole(rows.rows, ends)))
    missing = visit.cluster.unreached | missing
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


async def _ends_of(visit: Visit, table: TopicTable, names: list[str]) -> Ends:
    """Return the ends of these topics."""
    if not names:
        return Ends({})

    async def ask(admin: Admin) -> Ends:
        return await ends_of(admin, table, names)

    return await visit.cluster.ask(("ends of", *names), ask)


async def _known_ends(asked: Awaitable[Ends]) -> tuple[Ends, dict[str, str]]:
    """Return the ends that are known, and why others are missing."""
    try:
        ends = await asked
    except PymqError as error:
        return Ends({}), {"stored messages": str(error)}
    return ends, {broker: f"stored messages are unknown: {why}" for broker, why in ends.without.items()}
