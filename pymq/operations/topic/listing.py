"""Topics as plain records, and their changes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from pymq.client.admin import Admin, BrokerTarget
from pymq.client.admin.asking import change_each
from pymq.errors import NotFoundError, RefusedError, UsageError
from pymq.model.inner_batch import QUEUE_TYPE, QUEUE_TYPES
from pymq.model.lite_topics import EXPIRATION_ATTRIBUTE, EXPIRATION_MAX_MINUTES, EXPIRATION_NEVER
from pymq.model.message_types import TYPE_ATTRIBUTE, TYPES, UNCHECKED
from pymq.model.names import is_user_topic
from pymq.model.tables import TopicConfig, perm_text
from pymq.operations.sums import held_messages
from pymq.operations.topic.resizing import refuse_hiding
from pymq.units import parse_duration_ms
from pymq.wire.codes import ResponseCode

ROUTES_AT_ONCE = 256
MINUTE_MS = 60_000


async def list_topics(admin: Admin, show_all: bool, cluster: str | None) -> list[dict[str, Any]]:
    """Return a record per topic: its brokers, and queues and permission on each of them.

    ``read_queues`` and ``write_queues`` are None where brokers differ; ``queues`` has those of each broker.
    """
    if cluster is not None:
        await admin.cluster.select([cluster])  # raises NotFoundError for an unknown one
    names = await admin.topics.names(cluster) if show_all else await user_topics(admin, cluster)

    async def record(name: str) -> dict[str, Any] | None:
        try:
            queues = (await admin.topics.route(name)).queue_datas
        except NotFoundError:
            return None  # deleted since it was listed
        queues.sort(key=lambda data: data.broker_name)
        return {
            "topic": name,
            "brokers": [data.broker_name for data in queues],
            "read_queues": _common(data.read_queue_nums for data in queues),
            "write_queues": _common(data.write_queue_nums for data in queues),
            "perm": "/".join(sorted({perm_text(data.perm) for data in queues})),
            "queues": [
                {
                    "broker": data.broker_name,
                    "read_queues": data.read_queue_nums,
                    "write_queues": data.write_queue_nums,
                    "perm": perm_text(data.perm),
                }
                for data in queues
            ],
        }

    found: list[dict[str, Any] | None] = []
    for at in range(0, len(names), ROUTES_AT_ONCE):
        found += await asyncio.gather(*map(record, names[at : at + ROUTES_AT_ONCE]))
    return [entry for entry in found if entry is not None]


def _common(values: Iterable[int]) -> int | None:
    """Return the value that all have, None where they differ."""
    different = set(values)
    return different.pop() if len(different) == 1 else None


async def user_topics(admin: Admin, cluster: str | None = None) -> list[str]:
    """Return the topics of applications, sorted, without system, retry and dead-letter topics."""
    names = await admin.topics.names(cluster)
    system = await admin.topics.system_names()
    return [name for name in names if name not in system and is_user_topic(name)]


def type_attribute(message_type: str | None) -> dict[str, str]:
    """Return the attribute of a topic that takes only messages of this type. Raises UsageError."""
    if message_type is None:
        return {}
    if message_type.upper() not in (*TYPES, *UNCHECKED):
        raise UsageError(f"--type {message_type!r}: use {', '.join(TYPES).lower()}, or mixed for all of them")
    return {TYPE_ATTRIBUTE: message_type.upper()}


def expiration_attribute(expire: str | None) -> dict[str, str]:
    """Return the attribute of a parent topic whose lite topics expire after this time. Raises UsageError."""
    if expire is None:
        return {}
    if expire.lower() == "never":
        return {EXPIRATION_ATTRIBUTE: str(EXPIRATION_NEVER)}
    minutes, rest_ms = divmod(parse_duration_ms(expire), MINUTE_MS)
    if rest_ms or not 0 < minutes <= EXPIRATION_MAX_MINUTES:
        raise UsageError(f"--expire {expire!r}: use whole minutes, hours or days up to 30d, or never")
    return {EXPIRATION_ATTRIBUTE: str(minutes)}


def queue_type_attribute(queue_type: str | None) -> dict[str, str]:
    """Return the attribute of a topic with queues of this type. Raises UsageError."""
    if queue_type is None:
        return {}
    known = {name.lower(): name for name in QUEUE_TYPES}
    if queue_type.lower() not in known:
        raise UsageError(f"--queue-type {queue_type!r}: use {', '.join(QUEUE_TYPES)}")
    return {QUEUE_TYPE: known[queue_type.lower()]}


async def create_topic(
    admin: Admin, config: TopicConfig, clusters: list[str], brokers: list[str], *, is_dry: bool = False
) -> list[dict[str, Any]]:
    """Create the topic on the chosen brokers; with ``is_dry`` only returns what it would be.

    Raises RefusedError when one of them has it already.
    """
    targets = await admin.cluster.select(clusters, brokers)
    for target in targets:
        if await admin.topics.config(target.address, config.topic_name) is not None:
            remark = f"topic {config.topic_name!r} exists already: pymq topic update changes it"
            raise RefusedError(ResponseCode.TOPIC_EXIST_ALREADY, remark, target.address)
    if not is_dry:
        await change_each(targets, lambda target: admin.topics.put(target.address, config))
    return [config_record(target, config) for target in targets]


async def update_topic(
    admin: Admin,
    topic: str,
    clusters: list[str],
    brokers: list[str],
    changes: dict[str, Any],
    *,
    force: bool,
    is_dry: bool = False,
) -> list[dict[str, Any]]:
    """Apply the changes on the chosen brokers, by default those that hold the topic; ``is_dry`` changes nothing.

    Raises UnsafeError, unless ``force``, when fewer read queues would hide messages from a group.
    """
    if clusters or brokers:
        targets = await admin.cluster.select(clusters, brokers)
    else:
        targets = await admin.topics.targets(topic)
    if changes["read_queues"] is not None and not force:
        await refuse_hiding(admin, topic, targets, changes["read_queues"])
    changed = await admin.topics.update(topic, targets, **changes, is_dry=is_dry)
    return [config_record(target, after) | {"before": _before_text(before)} for target, before, after in changed]


def _before_text(config: TopicConfig) -> str:
    parts = [
        f"{config.read_queue_nums}/{config.write_queue_nums}",
        perm_text(config.perm),
        type_text(config.attributes),
    ]
    return " ".join(filter(None, parts))


def type_text(attributes: Mapping[str, str] | None) -> str:
    """Return the type that a topic takes; empty for a topic that never had one."""
    return (attributes or {}).get(TYPE_ATTRIBUTE, "")


async def describe_topic(admin: Admin, name: str) -> dict[str, Any]:
    """Describe a topic: configuration on each broker, number of messages, groups."""
    targets = await admin.topics.targets(name)
    stats = await admin.topics.stats(name, targets)
    brokers = []
    asking = admin.cluster.asking
    for target, config in await asking.each(targets, lambda address: admin.topics.config(address, name)):
        if config is not None:
            held = held_messages(at for queue, at in stats.items() if queue.broker_name == target.name)
            brokers.append(config_record(target, config) | {"messages": held})
    total = held_messages(stats.values())
    return {"topic": name, "messages": total, "groups": await admin.topics.groups(name), "brokers": brokers}


async def topic_queues(admin: Admin, name: str) -> list[dict[str, Any]]:
    """Return a record for each queue: its first and next offset, and the time of its last message."""
    return [
        {
            "topic": queue.topic,
            "broker": queue.broker_name,
            "queue": queue.queue_id,
            "min_offset": at.min_offset,
            "max_offset": at.max_offset,
            "messages": held_messages([at]),
            "last_message_ms": at.last_update_timestamp,
        }
        for queue, at in (await admin.topics.stats(name)).items()
    ]


async def topic_route(admin: Admin, name: str) -> list[dict[str, Any]]:
    """Return a record for each broker address of the route."""
    found = await admin.topics.route(name)
    records = []
    for queues in sorted(found.queue_datas, key=lambda data: data.broker_name):
        broker = found.broker(queues.broker_name)
        for broker_id, address in sorted(broker.broker_addrs.items() if broker is not None else ()):
            records.append(
                {
                    "topic": name,
                    "broker": queues.broker_name,
                    "cluster": broker.cluster if broker is not None else "",
                    "broker_id": broker_id,
                    "address": address,
                    "read_queues": queues.read_queue_nums,
                    "write_queues": queues.write_queue_nums,
                    "perm": perm_text(queues.perm),
                }
            )
    return records


def config_record(target: BrokerTarget, config: TopicConfig) -> dict[str, Any]:
    """Return a configuration for listings."""
    return {
        "topic": config.topic_name,
        "broker": target.name,
        "cluster": target.cluster,
        "address": target.address,
        "read_queues": config.read_queue_nums,
        "write_queues": config.write_queue_nums,
        "perm": perm_text(config.perm),
        "order": config.order,
        "attributes": config.attributes,
    }
