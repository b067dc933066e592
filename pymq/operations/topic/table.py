"""All topics as rows with their figures, from a few requests a broker."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from pymq.client.admin import Admin, BrokerTarget
from pymq.client.admin.asking import by_key
from pymq.errors import RefusedError
from pymq.model.message_types import TYPE_ATTRIBUTE
from pymq.model.names import DLQ_PREFIX, RETRY_PREFIX, is_system_topic
from pymq.model.tables import TopicConfig, perm_text
from pymq.wire.bodies_rows import TopicEnds, topic_ends

ENDS_AT_ONCE: Final = 4  # requests for single topics to one broker: each answer may be large
APPLICATION, RETRY, DEAD_LETTERS, SYSTEM = "application", "retry", "dead-letters", "system"
KINDS = (APPLICATION, RETRY, DEAD_LETTERS, SYSTEM)


Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Ends:
    """The ends of topics by the broker's name. ``without``: brokers that did not tell theirs, each with the reason."""

    by_broker: Mapping[str, Mapping[str, TopicEnds]]
    without: Mapping[str, str] = field(default_factory=dict)


class TopicTable:
    """The topics of all masters, sorted by name. There may be many: rows are made of those that are shown."""

    def __init__(
        self, configs: Iterable[tuple[BrokerTarget, Mapping[str, TopicConfig]]], system: Collection[str]
    ) -> None:
        """``system``: the names that the cluster calls its own."""
        self._holders: dict[str, list[tuple[BrokerTarget, TopicConfig]]] = {}
        for target, table in configs:
            for name, config in table.items():
                self._holders.setdefault(name, []).append((target, config))
        self.rows: list[Row] = [{"topic": name, "kind": topic_kind(name, system)} for name in sorted(self._holders)]

    def __len__(self) -> int:
        return len(self.rows)

    def with_ends(self, rows: Iterable[Row], ends: Ends) -> list[Row]:
        """Return rows with ``stored`` (messages) and ``last_ms`` (store time of the newest message, Unix ms).

        These are None where a broker did not tell.
        """
        return [row | self._ends(row["topic"], ends) for row in rows]

    def whole(self, rows: Iterable[Row], ends: Ends) -> list[Row]:
        """Return whole rows: the fields of ``pymq topic list -o json`` with ``kind``, ``type``, and those of the ends.

        ``type``, ``read_queues`` and ``write_queues`` are None where brokers differ.
        """
        return [row | self._settings(row["topic"]) | self._ends(row["topic"], ends) for row in rows]

    def holders(self, name: str) -> list[BrokerTarget]:
        """Return the brokers that have a topic."""
        return [target for target, _ in self._holders[name]]

    def _settings(self, name: str) -> Row:
        held = self._holders[name]
        return {
            "type": _common([config.attributes.get(TYPE_ATTRIBUTE, "") for _, config in held]),
            "brokers": [target.name for target, _ in held],
            "read_queues": _common([config.read_queue_nums for _, config in held]),
            "write_queues": _common([config.write_queue_nums for _, config in held]),
            "perm": "/".join(sorted({perm_text(config.perm) for _, config in held})),
            "queues": [
                {
                    "broker": target.name,
                    "read_queues": config.read_queue_nums,
                    "write_queues": config.write_queue_nums,
                    "perm": perm_text(config.perm),
                }
                for target, config in held
            ],
        }

    def _ends(self, name: str, ends: Ends) -> Row:
        known: list[TopicEnds] = []
        for target in self.holders(name):
            found = ends.by_broker.get(target.name, {}).get(name)
            if found is None:
                return {"stored": None, "last_ms": None}
            known.append(found)
        times = [each.last_ms for each in known if each.last_ms is not None]
        return {"stored": sum(each.stored for each in known), "last_ms": max(times, default=None)}


async def topic_table(admin: Admin) -> TopicTable:
    """Return all topics of all masters, from two requests a broker."""
    masters = await admin.cluster.masters()
    configs, system = await asyncio.gather(
        admin.cluster.asking.each(masters, admin.topics.configs), admin.topics.system_names()
    )
    return TopicTable(configs, system)


async def ends_of_all(admin: Admin) -> Ends:
    """Return the ends of all topics. Brokers that are not PyMQ's take a request for each topic."""
    return await _ends(admin, await admin.cluster.masters(), admin.topics.ends_at)


async def ends_of(admin: Admin, table: TopicTable, names: Sequence[str]) -> Ends:
    """Return the ends of some topics. Brokers that are not PyMQ's take a request for each topic."""
    targets = {target.address: target for name in names for target in table.holders(name)}

    async def ask(address: str) -> Mapping[str, TopicEnds]:
        there = [name for name in names if targets[address] in table.holders(name)]
        at_once = await admin.rows.ends_of(address, there)
        if at_once is not None:
            return at_once
        found = await by_key(there, partial(_ends_there, admin, targets[address]), ENDS_AT_ONCE)
        return {name: ends for name, ends in found.items() if ends is not None}

    return await _ends(admin, list(targets.values()), ask)


async def _ends_there(admin: Admin, target: BrokerTarget, topic: str) -> TopicEnds | None:
    """Return the ends of a topic on one broker; None where the sender may not see it, or it is gone."""
    try:
        queues = await admin.topics.stats(topic, [target])
    except RefusedError:
        return None
    return topic_ends(list(queues.values())) if queues else None


async def _ends(
    admin: Admin, masters: Sequence[BrokerTarget], question: Callable[[str], Awaitable[Mapping[str, TopicEnds] | None]]
) -> Ends:
    refused: dict[str, str] = {}

    async def ask(address: str) -> Mapping[str, TopicEnds] | None:
        try:
            return await question(address)
        except RefusedError as error:
            refused[address] = str(error)
            return None

    found = await admin.cluster.asking.each(masters, ask)
    by_broker = {target.name: rows for target, rows in found if rows is not None}
    return Ends(by_broker, {target.name: refused[target.address] for target in masters if target.address in refused})


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
