"""What commands and pages show of lite topics: sums over the brokers that have a part of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from pymq.client.admin import Admin, BrokerTarget
from pymq.client.admin.asking import for_each
from pymq.client.admin.lites import PAGE_SIZE
from pymq.errors import NotFoundError, RefusedError, UsageError
from pymq.model.lite_topics import split_light_queue
from pymq.wire.bodies_lites import LiteGroupState, LiteLag
from pymq.wire.codes import ResponseCode

_NOT_HERE = (ResponseCode.TOPIC_NOT_EXIST, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST)
_MINUTE_MS = 60_000


async def parents(admin: Admin) -> list[dict[str, Any]]:
    """Return a record per topic that has lite topics. ``expire_ms`` is -1 for never."""
    masters = await admin.cluster.masters()
    found = await for_each(masters, lambda target: admin.lites.broker(target.address))
    records: dict[str, dict[str, Any]] = {}
    for target, lites in zip(masters, found, strict=True):
        for topic, minutes in (lites.topic_meta if lites is not None else {}).items():
            record = records.setdefault(topic, _parent_record(topic, minutes))
            record["brokers"].append(target.name)
            part = await admin.lites.parent(target.address, topic)
            record["lite_topics"] += part.lite_topic_count
            record["groups"] = sorted({*record["groups"], *(part.groups or ())})
    return sorted(records.values(), key=lambda record: str(record["topic"]))


def _parent_record(topic: str, minutes: int) -> dict[str, Any]:
    expire_ms = minutes if minutes < 0 else minutes * _MINUTE_MS
    return {"topic": topic, "lite_topics": 0, "expire_ms": expire_ms, "groups": [], "brokers": []}


async def lite_topics(admin: Admin, parent: str, prefix: str = "") -> AsyncIterator[dict[str, Any]]:
    """Yield a record per lite topic whose name begins with ``prefix``, broker by broker.

    Raises NotFoundError, RefusedError for a topic that has none, UsageError for RocketMQ's brokers, which name none.
    """
    for target in await _brokers(admin, parent):
        start = 0
        while True:
            page = await admin.lites.parent(target.address, parent, start, PAGE_SIZE)
            rows = page.pymq_lite_topics
            if rows is None:
                if page.lite_topic_count and not start:
                    raise UsageError(
                        f"{target.name} has {page.lite_topic_count} lite topics, but RocketMQ's broker names none: "
                        "name one with pymq lite describe, or a group with pymq lite lag"
                    )
                break
            for name, offset in rows:
                if name.startswith(prefix):
                    yield {"lite_topic": name, "next_offset": offset, "broker": target.name}
            start += len(rows)
            if len(rows) < PAGE_SIZE or start >= page.lite_topic_count:
                break


async def lite_topic(admin: Admin, parent: str, name: str) -> dict[str, Any]:
    """Return what brokers know of one lite topic: its messages, and who subscribes to it.

    Raises NotFoundError, and RefusedError for a topic without lite topics.
    """
    record: dict[str, Any] = {
        "topic": parent, "lite_topic": name, "messages": 0, "min_offset": 0, "next_offset": 0, "last_ms": 0,
        "broker": None, "subscribers": [],
    }  # fmt: skip
    for target in await _brokers(admin, parent):
        state = await admin.lites.topic(target.address, parent, name)
        ends = state.topic_offset
        if ends.max_offset > ends.min_offset or state.sharding_to_broker:
            if ends.max_offset >= record["next_offset"]:
                record |= {"min_offset": ends.min_offset, "next_offset": ends.max_offset, "broker": target.name}
            record["messages"] += ends.max_offset - ends.min_offset
            record["last_ms"] = max(record["last_ms"], ends.last_update_timestamp)
        for one in state.subscriber:
            place = {"group": one.get("group", ""), "client": one.get("clientId", "")}
            if place not in record["subscribers"]:
                record["subscribers"].append(place)
    return record


async def subscriptions(admin: Admin, parent: str, group: str, client_id: str) -> dict[str, Any]:
    """Return the lite topics that a client subscribes to, at most 1,000 of them. Raises NotFoundError."""
    names: set[str] = set()
    count, seen_ms = -1, -1
    for target in await _brokers(admin, parent):
        state = await admin.lites.client(target.address, parent, group, client_id)
        count, seen_ms = max(count, state.lite_topic_count), max(seen_ms, state.last_access_time)
        names |= {(split_light_queue(name) or ("", name))[1] for name in state.lite_topic_set or ()}
    if count < 0:
        raise NotFoundError(f"no client {client_id!r} of group {group!r} subscribes to lite topics of {parent!r}")
    return {
        "topic": parent, "group": group, "client": client_id, "count": count, "seen_ms": seen_ms,
        "lite_topics": sorted(names),
    }  # fmt: skip


async def lag(admin: Admin, group: str, top: int) -> dict[str, Any]:
    """Return how far a group is behind in all its lite topics, and in the ``top`` ones of them.

    Raises NotFoundError for a group that no broker knows, RefusedError for one that reads no lite topics.
    """
    states = await _group_states(admin, group, None, top)
    rows: dict[str, LiteLag] = {}
    for state in states:
        rows |= {row.lite_topic: row for row in (*(state.lag_timestamp_top_k or ()), *(state.lag_count_top_k or ()))}
    ordered = sorted(rows.values(), key=lambda row: (-row.lag_count, row.lite_topic))[:top]
    times = [state.earliest_unconsumed_timestamp for state in states]
    times += [row.earliest_unconsumed_timestamp for row in ordered]
    since = [time_ms for time_ms in times if time_ms > 0]
    return {
        "group": group,
        "topic": states[0].parent_topic,
        "lag": sum(max(0, state.total_lag_count) for state in states),
        "waiting_since_ms": min(since, default=None),
        "lite_topics": [
            {
                "lite_topic": row.lite_topic,
                "lag": row.lag_count,
                "waiting_since_ms": row.earliest_unconsumed_timestamp
                if row.earliest_unconsumed_timestamp > 0
                else None,
            }
            for row in ordered
        ],
    }


async def lag_in(admin: Admin, group: str, name: str) -> dict[str, Any]:
    """Return how far a group is behind in one lite topic. Raises as :func:`lag`."""
    states = await _group_states(admin, group, name, 0)
    known = [state for state in states if state.total_lag_count >= 0]
    since = [state.earliest_unconsumed_timestamp for state in known if state.earliest_unconsumed_timestamp > 0]
    offsets = [state.lite_topic_offset_wrapper for state in known if state.lite_topic_offset_wrapper is not None]
    return {
        "group": group,
        "topic": states[0].parent_topic,
        "lite_topic": name,
        "lag": sum(state.total_lag_count for state in known),
        "next_offset": max((one.broker_offset for one in offsets), default=0),
        "committed": max((one.consumer_offset for one in offsets), default=None),
        "waiting_since_ms": min(since, default=None),
    }


async def _brokers(admin: Admin, parent: str) -> list[BrokerTarget]:
    """Return the masters that have queues of a topic. Raises NotFoundError."""
    route = await admin.topics.route(parent)
    names = {queue.broker_name for queue in route.queue_datas}
    return [target for target in await admin.cluster.masters() if target.name in names]


async def _group_states(admin: Admin, group: str, name: str | None, top: int) -> list[LiteGroupState]:
    """Return what each master says of a group. Raises NotFoundError when none knows it."""
    states = []
    for target in await admin.cluster.masters():
        try:
            states.append(await admin.lites.group(target.address, group, name, top))
        except RefusedError as error:
            if error.code not in _NOT_HERE:
                raise
    if not states:
        raise NotFoundError(f"no consumer group {group!r}: pymq group list shows all groups")
    return states
