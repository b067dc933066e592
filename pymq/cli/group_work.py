"""The work of the group commands: turns the admin client's answers into plain records."""

from __future__ import annotations

import asyncio
from typing import Any

from pymq.client import MessageQueue
from pymq.client.admin import Admin
from pymq.errors import NotFoundError
from pymq.model import pop
from pymq.model.names import RETRY_PREFIX, is_system_group
from pymq.wire.bodies_admin import ConsumeOffset, ConsumerConnections

GROUPS_AT_ONCE = 64


async def list_groups(admin: Admin, show_all: bool) -> list[dict[str, Any]]:
    """Returns a record per group: brokers, online members, lag over all topics, settings."""
    configs = await admin.groups.all_configs()
    names = [name for name in configs if show_all or not is_system_group(name)]

    async def record(name: str) -> dict[str, Any]:
        online, offsets = await asyncio.gather(_online(admin, name), admin.groups.lag(name))
        config = next(iter(configs[name].values()))
        return {
            "group": name,
            "brokers": sorted(configs[name]),
            "members": len(_members(online)),
            **_totals(offsets),
            "retry_max": config.retry_max_times,
            "enabled": all(one.consume_enable for one in configs[name].values()),
            "ordered": config.consume_message_orderly,
            "broadcast_allowed": config.consume_broadcast_enable,
        }

    records: list[dict[str, Any]] = []
    for at in range(0, len(names), GROUPS_AT_ONCE):
        records += await asyncio.gather(*map(record, names[at : at + GROUPS_AT_ONCE]))
    return records


async def describe_group(admin: Admin, name: str) -> dict[str, Any]:
    """Describes one group. Raises NotFoundError."""
    configs = (await admin.groups.all_configs()).get(name, {})
    online = await _online(admin, name)
    offsets = await admin.groups.lag(name)
    if not configs and not online and not offsets:
        raise NotFoundError(_no_group(name))
    config = next(iter(configs.values()), None)
    return {
        "group": name,
        "brokers": sorted(configs),
        "enabled": config.consume_enable if config else None,
        "retry_max": config.retry_max_times if config else None,
        "retry_queues": config.retry_queue_nums if config else None,
        "model": next((one.message_model for one in online if one.message_model), None),
        "consume_type": next((one.consume_type for one in online if one.consume_type), None),
        "consume_from": next((one.consume_from_where for one in online if one.consume_from_where), None),
        **_totals(offsets),
        "members": _members(online),
        "subscriptions": _subscriptions(online),
        "differing_subscriptions": _differing(await admin.groups.differing_subscriptions(name)),
        "progress": _by_topic(name, offsets),
        "filters": [one._asdict() for one in await admin.filters.figures(name)],
    }


def described_fields(described: dict[str, Any]) -> dict[str, Any]:
    """Returns the single values of a described group, with names for people."""
    kind = described["model"] and f"{described['model'].lower()}, {described['consume_from'] or ''}".rstrip(", ")
    return {
        "group": described["group"],
        "brokers": described["brokers"],
        "consuming": "allowed" if described["enabled"] else "off" if described["enabled"] is False else None,
        "mode": kind,
        "retries": described["retry_max"],
        "lag": described["lag"],
        "invisible": described["invisible"],
    }


async def lag_of_group(admin: Admin, group: str, topic: str | None) -> list[dict[str, Any]]:
    """Returns a record per queue, of a topic also those of its pop retry topics.

    Raises NotFoundError for a group that no broker knows.
    """
    names = [None] if topic is None else [topic, pop.retry_topic_v1(group, topic), pop.retry_topic_v2(group, topic)]
    answers = await asyncio.gather(*(admin.groups.lag(group, name) for name in names))
    offsets = {queue: at for answer in answers for queue, at in answer.items()}
    if not offsets and group not in await admin.groups.all_configs():
        raise NotFoundError(_no_group(group))
    return [
        {
            "group": group,
            "topic": queue.topic,
            "broker": queue.broker_name,
            "queue": queue.queue_id,
            "end_offset": at.broker_offset,
            "committed": at.consumer_offset,
            "lag": at.lag,
            "invisible": at.pymq_invisible or 0,
            "last_consumed_ms": at.last_timestamp,
        }
        for queue, at in offsets.items()
        if queue.topic in names or topic is None
    ]


def lag_totals(records: list[dict[str, Any]]) -> str:
    """Returns the last line under the records of :func:`lag_of_group`."""
    lag, invisible = (sum(record[name] for record in records) for name in ("lag", "invisible"))
    retry = sum(record["lag"] for record in records if record["topic"].startswith(RETRY_PREFIX))
    parts = [
        f"total lag {lag}",
        f"{retry} of it in retry" if retry else "",
        f"{invisible} invisible" if invisible else "",
    ]
    return ", ".join(filter(None, parts))


async def lag_of_all(admin: Admin, topic: str | None) -> list[dict[str, Any]]:
    """Returns a record per group and topic, the largest lag first."""
    names = [name for name in await admin.groups.all_configs() if not is_system_group(name)]
    records: list[dict[str, Any]] = []
    for at in range(0, len(names), GROUPS_AT_ONCE):
        part = names[at : at + GROUPS_AT_ONCE]
        for name, offsets in zip(part, await asyncio.gather(*map(admin.groups.lag, part)), strict=True):
            records += [{"group": name, **entry} for entry in _by_topic(name, offsets)]
    wanted = [record for record in records if topic is None or record["topic"] == topic]
    return sorted(wanted, key=lambda record: (-record["lag"], record["group"], record["topic"]))


def _totals(offsets: dict[MessageQueue, ConsumeOffset]) -> dict[str, int]:
    """Returns how many messages wait for the group, and how many its pops got and have not acknowledged."""
    return {
        "lag": sum(at.lag for at in offsets.values()),
        "invisible": sum(at.pymq_invisible or 0 for at in offsets.values()),
    }


def _by_topic(group: str, offsets: dict[MessageQueue, ConsumeOffset]) -> list[dict[str, Any]]:
    """Returns a record per topic. ``retry`` is the lag of its pop retry topics, whose invisible messages count, too."""
    records: dict[str, dict[str, Any]] = {}
    for queue, at in offsets.items():
        topic, flag = pop.normal_topic(queue.topic, group)
        record = records.setdefault(topic, {"topic": topic, "queues": 0, "lag": 0, "invisible": 0, "retry": 0})
        record["invisible"] += at.pymq_invisible or 0
        if flag == pop.NORMAL:
            record["queues"] += 1
        record["lag" if flag == pop.NORMAL else "retry"] += at.lag
    unused = {
        topic
        for topic in records
        if topic.startswith(RETRY_PREFIX) and not any(at.broker_offset for q, at in offsets.items() if q.topic == topic)
    }
    return [record for topic, record in records.items() if topic not in unused]


async def _online(admin: Admin, group: str) -> list[ConsumerConnections]:
    """Returns each master's list of the group's members, without masters that have none."""
    masters = await admin.cluster.masters()
    answers = await asyncio.gather(*(admin.groups.connections(target.address, group) for target in masters))
    return [answer for answer in answers if answer is not None]


def _members(online: list[ConsumerConnections]) -> list[dict[str, Any]]:
    """Returns the clients, each once although it is connected to several brokers."""
    found = {
        one.client_id: {
            "client_id": one.client_id,
            "address": one.client_addr,
            "language": one.language,
            "version": one.version,
        }
        for answer in online
        for one in answer.connection_set
    }
    return [found[client_id] for client_id in sorted(found)]


def _subscriptions(online: list[ConsumerConnections]) -> list[dict[str, Any]]:
    found = {topic: data for answer in online for topic, data in answer.subscription_table.items()}
    return [
        {"topic": topic, "expression": data.sub_string or "*", "type": data.expression_type or "TAG"}
        for topic, data in sorted(found.items())
        if not topic.startswith(RETRY_PREFIX)
    ]


def _differing(differences: dict[str, dict[str, int]]) -> list[dict[str, Any]]:
    return [
        {"topic": topic, "selection": selection, "members": count}
        for topic, selections in differences.items()
        for selection, count in selections.items()
    ]


def _no_group(name: str) -> str:
    return f"no consumer group {name!r}: pymq group list shows all groups"
