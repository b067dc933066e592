"""GroupManager: consumer groups and what each may do; kept in ``subscriptionGroup.json``."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

import msgspec

from pymq.broker.state import Table, read_configs, read_version
from pymq.clock import Clock
from pymq.config import BrokerConfig
from pymq.errors import Refusal
from pymq.model import names
from pymq.model.tables import DataVersion, SubscriptionGroupConfig
from pymq.wire.codes import ResponseCode

log = logging.getLogger(__name__)

RETRY_QUEUE_COUNT_MAX = 64
RETRY_TIMES_MAX = 10_000
# Java: GroupForbidden keeps a bit per permission; 2 is the number of the one for reading.
_READ_FORBIDDEN = 1 << 2


class GroupManager:
    """All consumer groups of a broker. Every change is saved before it returns and counted in ``data_version``."""

    def __init__(self, table: Table, *, clock: Clock, config: BrokerConfig) -> None:
        self.data_version = DataVersion()
        self._table = table
        self._clock = clock
        self._config = config
        self._groups: dict[str, SubscriptionGroupConfig] = {}
        self._forbidden: dict[str, dict[str, int]] = {}
        self.get = self._groups.get

    def load(self) -> None:
        """Reads ``subscriptionGroup.json``."""
        loaded = self._table.load()
        self.data_version = read_version(loaded)
        for name, group in read_configs(loaded, "subscriptionGroupTable", SubscriptionGroupConfig).items():
            problem = names.group_problem(name)
            if problem or group.group_name != name:
                log.warning("an entry was left out of subscriptionGroup.json: %s", problem or f"{name!r} is misnamed")
            else:
                self._groups[name] = group
        for name, topics in (loaded.get("forbiddenTable") or {}).items():
            self._forbidden[name] = {str(topic): int(bits) for topic, bits in (topics or {}).items()}

    def all(self) -> dict[str, SubscriptionGroupConfig]:
        """A copy of name -> configuration."""
        return dict(self._groups)

    def forbidden_table(self) -> dict[str, dict[str, int]]:
        """Group -> topic -> bits, as RocketMQ persists it."""
        return {group: dict(topics) for group, topics in self._forbidden.items()}

    def ensure(self, group: str) -> SubscriptionGroupConfig:
        """The group, made on its first use where that is allowed.

        Raises Refusal: SUBSCRIPTION_GROUP_NOT_EXIST, INVALID_PARAMETER for an illegal name, NO_PERMISSION at the limit.
        """
        found = self.get(group)
        if found is not None:
            return found
        self.ensure_all([group])
        return self._groups[group]

    def ensure_all(self, groups: Iterable[str]) -> None:
        """Makes the groups that are missing, all or none, with one save. Raises as :meth:`ensure`."""
        missing = [group for group in dict.fromkeys(groups) if group not in self._groups]
        for group in missing:
            self._check_creatable(group)
        if missing:
            self._check_count(len(missing))
            self._store([SubscriptionGroupConfig(group_name=group) for group in missing])
            log.info("made consumer groups on their first use: %s", ", ".join(missing))

    def require(self, group: str) -> SubscriptionGroupConfig:
        """The group, never made. Raises Refusal(SUBSCRIPTION_GROUP_NOT_EXIST)."""
        found = self.get(group)
        if found is None:
            raise Refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, self._not_exist_text(group))
        return found

    def put(self, groups: Iterable[SubscriptionGroupConfig]) -> None:
        """Makes or replaces groups as an operator asked. Raises Refusal naming the value and the limit; all or none."""
        wanted = list(groups)
        for group in wanted:
            self._check(group)
        self._check_count(sum(group.group_name not in self._groups for group in wanted))
        changed = [group for group in wanted if self._groups.get(group.group_name) != group]
        if changed:
            self._store(changed)

    def delete(self, group: str) -> bool:
        """Forgets a group and what it is forbidden; False when there was none."""
        if group not in self._groups:
            return False
        kept, kept_forbidden = self._groups.pop(group), self._forbidden.pop(group, None)
        try:
            self._save()
        except Exception:
            self._groups[group] = kept
            if kept_forbidden is not None:
                self._forbidden[group] = kept_forbidden
            raise
        return True

    def is_forbidden(self, group: str, topic: str) -> bool:
        """True when the group may not read the topic."""
        topics = self._forbidden.get(group)
        return topics is not None and bool(topics.get(topic, 0) & _READ_FORBIDDEN)

    def set_readable(self, group: str, topic: str, readable: bool) -> None:
        """Allows or forbids the group to read the topic."""
        before = self.forbidden_table()
        topics = self._forbidden.setdefault(group, {})
        bits = topics.get(topic, 0)
        topics[topic] = bits & ~_READ_FORBIDDEN if readable else bits | _READ_FORBIDDEN
        if not topics[topic]:
            del topics[topic]
        if not topics:
            del self._forbidden[group]
        try:
            self._save()
        except Exception:
            self._forbidden = before
            raise

    def _check(self, group: SubscriptionGroupConfig) -> None:
        self._refuse_illegal(group.group_name)
        for name, value, low, high in (
            ("retryQueueNums", group.retry_queue_nums, 0, RETRY_QUEUE_COUNT_MAX),
            ("retryMaxTimes", group.retry_max_times, -1, RETRY_TIMES_MAX),
            ("consumeTimeoutMinute", group.consume_timeout_minute, 1, 24 * 60),
        ):
            if not low <= value <= high:
                raise Refusal(ResponseCode.INVALID_PARAMETER, f"{name}={value}: use {low} to {high}")

    def _check_creatable(self, group: str) -> None:
        self._refuse_illegal(group)
        if not self._config.auto_create_subscription_group and not names.is_system_group(group):
            raise Refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, self._not_exist_text(group))

    def _refuse_illegal(self, group: str) -> None:
        problem = names.group_problem(group)
        if problem:
            raise Refusal(ResponseCode.INVALID_PARAMETER, problem)

    def _check_count(self, added: int) -> None:
        limit = self._config.group_count_max
        if added and len(self._groups) + added > limit:
            raise Refusal(
                ResponseCode.NO_PERMISSION,
                f"this broker has its limit of {limit} consumer groups: delete some or raise maxGroups",
            )

    def _not_exist_text(self, group: str) -> str:
        return (
            f"subscription group {group[:127]!r} not exist on {self._config.broker_name}: make it with mqadmin "
            "updateSubGroup, or set autoCreateSubscriptionGroup=true"
        )

    def _store(self, groups: list[SubscriptionGroupConfig]) -> None:
        before = {group.group_name: self._groups.get(group.group_name) for group in groups}
        self._groups.update({group.group_name: group for group in groups})
        try:
            self._save()
        except Exception:
            for name, old in before.items():
                if old is None:
                    del self._groups[name]
                else:
                    self._groups[name] = old
            raise

    def _save(self) -> None:
        version = self.data_version.next(self._clock.now_ms())
        value: dict[str, Any] = {
            "dataVersion": version,
            "forbiddenTable": self._forbidden,
            "subscriptionGroupTable": self._groups,
        }
        self._table.save(msgspec.to_builtins(value))
        self.data_version = version
