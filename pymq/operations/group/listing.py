"""Consumer groups as plain records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pymq.client.admin import Admin
from pymq.client.admin.rows import Rows
from pymq.clock import Clock
from pymq.model.names import RETRY_PREFIX, is_system_group
from pymq.model.tables import SubscriptionGroupConfig
from pymq.operations.group import lag
from pymq.operations.group.members import differing_records
from pymq.wire.bodies_admin import ConsumerConnections, TopicLag
from pymq.wire.bodies_rows import GroupLag, GroupMembers, group_lag
from pymq.wire.versions import version_name


async def list_groups(admin: Admin, show_all: bool) -> list[dict[str, Any]]:
    """Return a record per group: brokers, online members, lag over all topics, settings.

    A number is None where it is unknown, or may not be seen.
    """
    records = await list_members(admin, show_all)
    return with_lags(records, await admin.groups.all_lags())


def with_lags(records: Iterable[dict[str, Any]], lags: Rows[GroupLag]) -> list[dict[str, Any]]:
    """Return the records of :func:`list_members` with the lags of their groups."""
    found = []
    for record in records:
        sums = lags.get(record["group"], GroupLag(invisible=None if lags.withheld else 0))
        found.append(record | {"lag": sums.known_lag, "invisible": sums.invisible})
    return found


async def list_members(admin: Admin, show_all: bool) -> list[dict[str, Any]]:
    """Return what :func:`list_groups` does, without lags: they are None."""
    configs, members = await admin.groups.all_configs(), await admin.groups.all_member_counts()
    records = []
    for name, brokers in configs.items():
        if not show_all and is_system_group(name):
            continue
        online = members.get(name, GroupMembers(members=None if members.withheld else 0))
        config = next(iter(brokers.values()))
        records.append(
            {
                "group": name,
                "brokers": sorted(brokers),
                "members": online.members,
                "lag": None,
                "invisible": None,
                "retry_max": config.retry_max_times,
                "enabled": _enabled_on(brokers),
                "ordered": config.consume_message_orderly,
                "broadcast_allowed": config.consume_broadcast_enable,
            }
        )
    return records


def _enabled_on(configs: Mapping[str, SubscriptionGroupConfig]) -> bool | str:
    """Return whether the group may consume, or the brokers where it may if they differ."""
    on = [name for name, config in configs.items() if config.consume_enable]
    return bool(on) if len(on) in (0, len(configs)) else f"only on {', '.join(sorted(on))}"


async def describe_group(admin: Admin, name: str, clock: Clock) -> dict[str, Any]:
    """Describe one group. Raises NotFoundError."""
    lags = await admin.groups.topic_lags(name, with_times=True)
    record = await group_record(admin, name, lags, clock)
    return record | {"filters": [one._asdict() for one in await admin.filters.figures(name)]}


async def group_record(admin: Admin, name: str, lags: Mapping[str, TopicLag], clock: Clock) -> dict[str, Any]:
    """Return what :func:`describe_group` does of a group with these lags, without figures of filters.

    Raises NotFoundError.
    """
    configs = (await admin.groups.all_configs()).get(name, {})
    members_of = await admin.groups.online(name)
    online = [answer for _, answer in members_of]
    if not configs and not online and not lags:
        raise lag.not_found(admin, name)
    progress = lag.topic_records(name, lags, clock.now_ms())
    sums = group_lag(lags)
    config = next(iter(configs.values()), None)
    return {
        "group": name,
        "brokers": sorted(configs),
        "enabled": _enabled_on(configs) if configs else None,
        "retry_max": config.retry_max_times if config else None,
        "retry_queues": config.retry_queue_nums if config else None,
        "model": next((one.message_model for one in online if one.message_model), None),
        "consume_type": next((one.consume_type for one in online if one.consume_type), None),
        "consume_from": next((one.consume_from_where for one in online if one.consume_from_where), None),
        "lag": sums.known_lag,
        "invisible": sums.invisible,
        "members": _members(online),
        "subscriptions": _subscriptions(online),
        "differing_subscriptions": differing_records(await admin.groups.differences_of(name, members_of)),
        "progress": progress,
    }


def _members(online: list[ConsumerConnections]) -> list[dict[str, Any]]:
    """Return the clients, each once although it is connected to several brokers."""
    found = {
        one.client_id: {
            "client_id": one.client_id,
            "address": one.client_addr,
            "language": one.language,
            "version": version_name(one.version),
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
