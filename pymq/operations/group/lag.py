"""How far groups are behind, in messages and in time.

A figure is None where it is unknown: a group without a committed offset has read nothing yet, and where it will begin
is its members' choice; RocketMQ's brokers do not count invisible messages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from pymq.client import MessageQueue
from pymq.client.admin import Admin
from pymq.client.admin.asking import for_each
from pymq.clock import Clock
from pymq.errors import NotFoundError, PymqError, UnreachableError
from pymq.model import pop
from pymq.model.names import RETRY_PREFIX, check_group, check_topic, is_system_group
from pymq.wire.bodies_admin import ConsumeOffset, TopicLag, add_lag, sum_of_known

TOPICS_AT_ONCE = 8
TIMES_ASKED_MAX = 64  # groups in topics whose waiting time is asked for one by one


def no_group(name: str, broker: str | None = None) -> NotFoundError:
    """Return the error for a group that no broker knows, or this one does not."""
    where = "" if broker is None else f" on {broker}"
    return NotFoundError(f"no consumer group {name!r}{where}: pymq group list shows all groups")


def not_found(admin: Admin, name: str) -> PymqError:
    """Return the error for a group that no broker which answers knows: another may know it."""
    if admin.unreached:
        reasons = "; ".join(admin.unreached.values())
        return UnreachableError(f"no broker that answers knows the group {name!r}, and others don't answer: {reasons}")
    return no_group(name)


def topic_records(group: str, lags: Mapping[str, TopicLag], now_ms: int) -> list[dict[str, Any]]:
    """Return a record per topic. ``retry`` is the lag of its pop retry topics, whose invisible messages count, too."""
    records: dict[str, dict[str, Any]] = {}
    for name, lag in lags.items():
        topic, flag = pop.normal_topic(name, group)
        if name.startswith(RETRY_PREFIX) and flag == pop.NORMAL and not (lag.lag or lag.invisible):
            continue  # every group has such a topic, most of them unused
        record = records.setdefault(topic, _empty_record(topic))
        record["invisible"] = sum_of_known((record["invisible"], lag.invisible))
        if flag == pop.NORMAL:
            record["queues"] += lag.queues
            record["unknown_queues"] += lag.unknown_queues
            record["lag"] = lag.known_lag
        else:
            record["retry"] += lag.lag
        if lag.waiting_since_ms:
            record["lag_ms"] = max(record["lag_ms"] or 0, now_ms - lag.waiting_since_ms, 0)
    return list(records.values())


def _empty_record(topic: str) -> dict[str, Any]:
    return {
        "topic": topic,
        "queues": 0,
        "lag": 0,
        "lag_ms": None,
        "invisible": 0,
        "retry": 0,
        "unknown_queues": 0,
    }


async def lag_of_all(
    admin: Admin, topic: str | None, clock: Clock, *, with_all_times: bool = False
) -> list[dict[str, Any]]:
    """Return a record per group and topic, the largest lag first.

    Without ``with_all_times`` some records may lack the time, where many groups are behind in many queues: a broker
    reads a message of each to find it. Raises NotFoundError for a topic that isn't there.
    """
    if topic is not None:
        await _check_exists(admin, topic)
    names = [name for name in await admin.groups.all_configs() if not is_system_group(name)]
    lags: dict[str, dict[str, TopicLag]] = {name: {} for name in names}
    masters = await admin.cluster.masters()
    ask = partial(admin.groups.all_topic_lags_at, with_times=True, only_cheap=not with_all_times)
    for _, groups in await admin.cluster.asking.each(masters, ask):
        for name in lags.keys() & groups.keys():
            for one, lag in groups[name].items():
                add_lag(lags[name], one, lag)
    await _add_times(admin, lags, None if with_all_times else TIMES_ASKED_MAX)
    now_ms = clock.now_ms()
    records = [
        {"group": name} | entry
        for name in names
        for entry in topic_records(name, dict(sorted(lags[name].items())), now_ms)
        if topic is None or entry["topic"] == topic
    ]
    return sorted(records, key=lambda record: (-(record["lag"] or 0), record["group"], record["topic"]))


async def _add_times(admin: Admin, lags: Mapping[str, dict[str, TopicLag]], count_max: int | None) -> None:
    """Ask since when messages wait, where brokers did not say it; at most ``count_max`` times, of the largest lags."""
    missing = [
        (-lag.lag, group, topic)
        for group, topics in lags.items()
        for topic, lag in topics.items()
        if lag.lag > 0 and not lag.waiting_since_ms
    ]
    untimed = [(group, topic) for _, group, topic in sorted(missing)[:count_max]]
    times = await for_each(untimed, lambda pair: admin.groups.waiting_since(*pair), TOPICS_AT_ONCE)
    for (group, topic), found in zip(untimed, times, strict=True):
        since_ms = min(found.values(), default=0)
        lags[group][topic] = replace(lags[group][topic], waiting_since_ms=since_ms)


async def with_waits(
    admin: Admin, group: str, records: Sequence[Mapping[str, Any]], clock: Clock
) -> list[dict[str, Any]]:
    """Return records of topics with the time that messages wait, asked where it is missing: one request a record."""

    async def ask(record: Mapping[str, Any]) -> dict[str, Any]:
        if record["lag_ms"] is not None or not record["lag"]:
            return dict(record)
        since_ms = (await admin.groups.waiting_since(group, record["topic"])).values()
        return {**record, "lag_ms": max(clock.now_ms() - min(since_ms), 0) if since_ms else None}

    return await for_each(records, ask, TOPICS_AT_ONCE)


async def lag_of_group(admin: Admin, group: str, topic: str | None, clock: Clock) -> list[dict[str, Any]]:
    """Return a record per queue, of a topic also those of its pop retry topics.

    Raises NotFoundError for a group that no broker knows, and for a topic that isn't there.
    """
    check_group(group)
    if topic is not None:
        await _check_exists(admin, topic)
    names = [None] if topic is None else [topic, pop.retry_topic_v1(group, topic), pop.retry_topic_v2(group, topic)]
    answers = await asyncio.gather(*(admin.groups.lag(group, name) for name in names))
    offsets = {queue: at for answer in answers for queue, at in answer.items() if topic is None or queue.topic in names}
    has_read = any(not at.pymq_uncommitted or at.pymq_invisible for at in offsets.values())
    if not has_read and group not in await admin.groups.all_configs():
        raise not_found(admin, group)
    behind = sorted({queue.topic for queue, at in offsets.items() if at.lag > 0 and not at.pymq_uncommitted})
    times = await for_each(behind, lambda name: admin.groups.waiting_since(group, name), TOPICS_AT_ONCE)
    since_ms = {queue: ms for found in times for queue, ms in found.items()}
    now_ms = clock.now_ms()
    return [_queue_record(group, queue, at, since_ms.get(queue), now_ms) for queue, at in offsets.items()]


def _queue_record(
    group: str, queue: MessageQueue, at: ConsumeOffset, since_ms: int | None, now_ms: int
) -> dict[str, Any]:
    is_unknown = bool(at.pymq_uncommitted)
    return {
        "group": group,
        "topic": queue.topic,
        "broker": queue.broker_name,
        "queue": queue.queue_id,
        "end_offset": at.broker_offset,
        "committed": None if is_unknown else at.consumer_offset,
        "lag": None if is_unknown and at.broker_offset else at.lag,
        "lag_ms": 0 if at.lag == 0 else max(now_ms - since_ms, 0) if since_ms else None,
        "invisible": at.pymq_invisible,
        "last_consumed_ms": at.last_timestamp,
    }


async def _check_exists(admin: Admin, topic: str) -> None:
    """Raise NotFoundError for a topic without a route."""
    await admin.topics.route(check_topic(topic))
