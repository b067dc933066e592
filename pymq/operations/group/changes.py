"""Makes, changes and deletes consumer groups on chosen brokers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from pymq.client.admin import Admin, BrokerTarget
from pymq.client.admin.asking import change_each
from pymq.client.admin.guarded import changed_members
from pymq.errors import UnsafeError
from pymq.model.lite_groups import BIND_TOPIC, SUB_MODEL, WILDCARD
from pymq.model.names import check_group, dlq_topic, retry_topic
from pymq.model.tables import SubscriptionGroupConfig
from pymq.operations.group.lag import no_group
from pymq.operations.sums import online_members
from pymq.operations.where import Where
from pymq.wire.bodies_rows import group_lag

# Values of a group by their names in output, as far as operators change them.
SETTINGS = {
    "enabled": "consume_enable",
    "retry_max": "retry_max_times",
    "retry_queues": "retry_queue_nums",
    "ordered": "consume_message_orderly",
    "broadcast_allowed": "consume_broadcast_enable",
    "from_min_allowed": "consume_from_min_enable",
    "notify_members": "notify_consumer_ids_changed_enable",
    "consume_timeout_min": "consume_timeout_minute",
    "slow_broker_id": "which_broker_when_consume_slowly",
}

# Attributes of a group, which brokers keep as text: of the members of a group that reads lite topics.
ATTRIBUTES = {
    "lite_parent": BIND_TOPIC,
    "lite_model": SUB_MODEL,
    "lite_wildcard": WILDCARD,
}

Settings = Mapping[str, Any]


async def create(admin: Admin, name: str, where: Where, settings: Settings, *, dry_run: bool) -> list[dict[str, Any]]:
    """Make the group on the chosen brokers; an open ``where`` means all.

    Raises RefusedError, before any change, when one of them has it.
    """
    check_group(name)
    chosen = await admin.cluster.select(where.clusters, where.brokers)

    def merge(target: BrokerTarget, before: SubscriptionGroupConfig | None) -> SubscriptionGroupConfig:
        if before is not None:
            raise _exists(name, target)
        return _with(SubscriptionGroupConfig(group_name=name), settings)

    planned = [
        _record(target, None, merge(target, before), is_applied=False)
        for target, before in await _configs(admin, name, chosen)
    ]
    if dry_run:
        return planned

    async def make(target: BrokerTarget) -> dict[str, Any]:
        changed = await admin.groups.change(target.address, name, lambda before: merge(target, before))
        return _record(target, None, changed.after, is_applied=True)

    return await change_each(_reached(admin, chosen), make)


async def update(admin: Admin, name: str, where: Where, settings: Settings, *, dry_run: bool) -> list[dict[str, Any]]:
    """Change the given settings and keep the others, on each broker separately.

    Raises NotFoundError, before any change, when a chosen broker lacks the group.
    """
    chosen = await _holders(admin, name, where)

    def merge(target: BrokerTarget, before: SubscriptionGroupConfig | None) -> SubscriptionGroupConfig:
        if before is None:
            raise no_group(name, target.name or target.address)
        return _with(before, settings)

    planned = [
        _record(target, before, merge(target, before), is_applied=False)
        for target, before in await _configs(admin, name, chosen)
    ]
    if dry_run:
        return planned

    async def change(target: BrokerTarget) -> dict[str, Any]:
        changed = await admin.groups.change(target.address, name, lambda before: merge(target, before))
        return _record(target, changed.before, changed.after, is_applied=True)

    return await change_each(_reached(admin, chosen), change)


@dataclass(frozen=True)
class Deletion:
    """A deletion that is planned. ``own_topics``: the group's retry and dead-letter topics, if they go along."""

    group: str
    targets: list[BrokerTarget]
    is_everywhere: bool
    members: int
    lag: int | None
    own_topics: list[str]

    def record(self, *, is_applied: bool) -> dict[str, Any]:
        """Return the plan for output."""
        return {
            "group": self.group,
            "brokers": _names(self.targets),
            "members_online": self.members,
            "lag": self.lag,
            "topics": self.own_topics,
            "applied": is_applied,
        }

    def text(self) -> str:
        """Return what goes, for people."""
        lag = "an unknown number of" if self.lag is None else f"{self.lag:,}"
        lines = [
            f"{self.group} on {', '.join(_names(self.targets))}: {self.members} members are online, it has {lag} "
            "messages to read",
            *(f"  with it: {topic}" for topic in self.own_topics),
        ]
        return "\n".join(lines)

    def check(self, *, is_forced: bool) -> None:
        """Raise UnsafeError while members are online, unless forced: their next heartbeat makes the group again."""
        if self.members and not is_forced:
            raise UnsafeError(
                f"group {self.group!r} has {self.members} members online, whose next heartbeat makes it again: stop "
                "them first, or give --force"
            )


async def plan_delete(admin: Admin, name: str, where: Where, *, with_topics: bool) -> Deletion:
    """Look at what a deletion would cost. Raises NotFoundError."""
    holders = await _holders(admin, name, Where((), ()))
    targets = holders if where.is_open else await _holders(admin, name, where)
    online = await admin.groups.online(name)
    lag = group_lag(await admin.groups.topic_lags(name)).known_lag
    is_everywhere = set(holders) <= set(targets)
    own = {retry_topic(name), dlq_topic(name)}
    existing = [topic for topic in await admin.topics.names() if topic in own] if with_topics and is_everywhere else []
    members = online_members(answer for _, answer in online)
    return Deletion(name, targets, is_everywhere, len(members), lag, existing)


async def delete(admin: Admin, plan: Deletion, *, with_offsets: bool) -> None:
    """Delete the group, and the topics that go along. Raises PartialError when only some brokers did it."""
    await change_each(
        plan.targets, lambda target: admin.groups.delete(target.address, plan.group, with_offsets=with_offsets)
    )
    for topic in plan.own_topics:
        await admin.topics.delete(topic, await admin.topics.targets(topic), everywhere=True)


async def _holders(admin: Admin, name: str, where: Where) -> list[BrokerTarget]:
    """Return the chosen brokers, or all that have the group. Raises NotFoundError when none does."""
    check_group(name)
    if not where.is_open:
        return await admin.cluster.select(where.clusters, where.brokers)
    known = (await admin.groups.all_configs()).get(name, {})
    found = [target for target in await admin.cluster.masters() if target.name in known]
    if not found:
        raise no_group(name)
    return found


async def _configs(
    admin: Admin, name: str, chosen: Sequence[BrokerTarget]
) -> list[tuple[BrokerTarget, SubscriptionGroupConfig | None]]:
    """Return the group as the chosen brokers have it; a partial Admin leaves out those that can't be reached."""
    return await admin.cluster.asking.each(chosen, lambda address: admin.groups.config(address, name))


def _reached(admin: Admin, chosen: Sequence[BrokerTarget]) -> list[BrokerTarget]:
    return [target for target in chosen if (target.name or target.address) not in admin.unreached]


def _exists(name: str, target: BrokerTarget) -> UnsafeError:
    where = target.name or target.address
    return UnsafeError(f"group {name!r} exists already on {where}: pymq group update changes it")


def _with(config: SubscriptionGroupConfig, settings: Settings) -> SubscriptionGroupConfig:
    """Return the group with the settings."""
    members = {SETTINGS[key]: value for key, value in settings.items() if key in SETTINGS}
    attributes = {ATTRIBUTES[key]: str(value) for key, value in settings.items() if key in ATTRIBUTES}
    return msgspec.structs.replace(config, **members, attributes={**config.attributes, **attributes})


def _attributes(config: SubscriptionGroupConfig) -> dict[str, str | None]:
    """Return the attributes of a group, None for one that it has not."""
    return {key: config.attributes.get(name) for key, name in ATTRIBUTES.items()}


def _record(
    target: BrokerTarget, before: SubscriptionGroupConfig | None, after: SubscriptionGroupConfig, *, is_applied: bool
) -> dict[str, Any]:
    changed = changed_members(before, after)
    return {
        "group": after.group_name,
        "broker": target.name,
        "cluster": target.cluster,
        "address": target.address,
        **{key: getattr(after, member) for key, member in SETTINGS.items()},
        **_attributes(after),
        "changes": _changes(before, after, changed) if before is not None else ["new"],
        "applied": is_applied,
    }


def _changes(before: SubscriptionGroupConfig, after: SubscriptionGroupConfig, changed: Sequence[str]) -> list[str]:
    members = [
        f"{key} {_text(getattr(before, member))} -> {_text(getattr(after, member))}"
        for key, member in SETTINGS.items()
        if member in changed
    ]
    old, new = _attributes(before), _attributes(after)
    return members + [f"{key} {old[key] or 'none'} -> {new[key]}" for key in new if new[key] != old[key]]


def _text(value: Any) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


def _names(targets: Sequence[BrokerTarget]) -> list[str]:
    return [target.name or target.address for target in targets]
