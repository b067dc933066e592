"""All topics as rows with their figures, from a few requests a broker."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from pymq.client.admin import Admin, BrokerTarget
from pymq.client.admin.rows import Rows
from pymq.errors import RefusedError
from pymq.model.message_types import TYPE_ATTRIBUTE
from pymq.model.names import DLQ_PREFIX, RETRY_PREFIX, is_system_topic
from pymq.model.tables import TopicConfig, perm_text
from pymq.wire.bodies_rows import TopicEnds

APPLICATION, RETRY, DEAD_LETTERS, SYSTEM = "application", "retry", "dead-letters", "system"
KINDS = (APPLICATION, RETRY, DEAD_LETTERS, SYSTEM)


@dataclass(frozen=True, slots=True)
class TopicTable:
    """Topics by name. ``without_ends``: brokers that did not tell their ends, each with the reason."""

    rows: list[dict[str, Any]]
    without_ends: dict[str, str]


async def topic_table(admin: Admin) -> TopicTable:
    """Return a row for each topic of all masters, sorted by name.

    A row has the fields of ``pymq topic list -o json``, and ``kind``, ``type``, ``stored`` (messages) and ``last_ms``
    (store time of the newest message, Unix ms). The last three are None where brokers differ, or did not tell.
    """
    masters = await admin.cluster.masters()
    configs, system, (ends, without_ends) = await asyncio.gather(
        admin.cluster.asking.each(masters, admin.topics.configs), admin.topics.system_names(), _ends(admin, masters)
    )
    holders: dict[str, list[tuple[str, TopicConfig]]] = {}
    for target, table in configs:
        for name, config in table.items():
            holders.setdefault(name, []).append((target.name, config))
    rows = [_row(name, holders[name], system, ends) for name in sorted(holders)]
    return TopicTable(rows, without_ends)


async def _ends(admin: Admin, masters: list[BrokerTarget]) -> tuple[dict[str, Rows[TopicEnds]], dict[str, str]]:
    """Return the ends by broker name, and why others are missing."""
    refused: dict[str, str] = {}

    async def ask(address: str) -> Rows[TopicEnds] | None:
        try:
            return await admin.topics.ends_at(address)
        except RefusedError as error:
            refused[address] = str(error)
            return None

    found = await admin.cluster.asking.each(masters, ask)
    ends = {target.name: rows for target, rows in found if rows is not None}
    return ends, {target.name: refused[target.address] for target in masters if target.address in refused}


def _row(
    name: str, held: list[tuple[str, TopicConfig]], system: set[str], ends: dict[str, Rows[TopicEnds]]
) -> dict[str, Any]:
    found = [ends[broker].get(name) if broker in ends else None for broker, _ in held]
    known = [each for each in found if each is not None]
    times = [each.last_ms for each in known if each.last_ms is not None]
    is_known = len(known) == len(held)
    return {
        "topic": name,
        "kind": topic_kind(name, system),
        "type": _common([config.attributes.get(TYPE_ATTRIBUTE, "") for _, config in held]),
        "brokers": [broker for broker, _ in held],
        "read_queues": _common([config.read_queue_nums for _, config in held]),
        "write_queues": _common([config.write_queue_nums for _, config in held]),
        "perm": "/".join(sorted({perm_text(config.perm) for _, config in held})),
        "queues": [
            {
                "broker": broker,
                "read_queues": config.read_queue_nums,
                "write_queues": config.write_queue_nums,
                "perm": perm_text(config.perm),
            }
            for broker, config in held
        ],
        "stored": sum(each.stored for each in known) if is_known else None,
        "last_ms": max(times, default=None) if is_known else None,
    }


def topic_kind(name: str, system: Collection[str]) -> str:
    """Return one of :data:`KINDS`. ``system``: the names that the cluster calls its own."""
    if name.startswith(RETRY_PREFIX):
        return RETRY
    if name.startswith(DLQ_PREFIX):
        return DEAD_LETTERS
    return SYSTEM if name in system or is_system_topic(name) else APPLICATION


def _common(values: list[Any]) -> Any:
    """Return the value that all have, None where they differ."""
    return values[0] if len(set(values)) == 1 else None
