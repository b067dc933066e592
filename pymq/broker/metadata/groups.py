"""GroupManager: consumer groups and their permissions; saved in ``subscriptionGroup.json``."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from pymq.broker.metadata.group_rules import with_changed_attributes
from pymq.broker.metadata.saved_state import SavedState, raise_failure
from pymq.broker.metadata.saved_table import SavedTable
from pymq.broker.metadata.table_reading import read_configs
from pymq.broker.metadata.table_saver import Saved, TableSaver
from pymq.clock import Clock
from pymq.config import BrokerConfig
from pymq.errors import Refusal
from pymq.model import names
from pymq.model.tables import DataVersion, SubscriptionGroupConfig
from pymq.wire.codes import ResponseCode

log = logging.getLogger(__name__)

RETRY_QUEUE_COUNT_MAX = 64
RETRY_TIMES_MAX = 10_000
# Java: GroupForbidden keeps a bit for each permission; bit 2 is for reading.
_READ_FORBIDDEN = 1 << 2


@dataclass(slots=True)
class Groups:
    """The content of ``subscriptionGroup.json``."""

    configs: dict[str, SubscriptionGroupConfig] = field(default_factory=dict)
    forbidden: dict[str, dict[str, int]] = field(default_factory=dict)  # by group and topic: bits of permissions

    def replace(self, other: Groups) -> None:
        for mine, others in ((self.configs, other.configs), (self.forbidden, other.forbidden)):
            mine.clear()
            mine.update(others)  # type: ignore[arg-type]

    def add(self, other: Groups) -> None:
        self.configs.update(other.configs)
        self.forbidden.update(other.forbidden)

    def copy(self) -> Groups:
        return Groups(dict(self.configs), {group: dict(topics) for group, topics in self.forbidden.items()})

    def as_table(self, version: DataVersion) -> dict[str, Any]:
        return {
            "dataVersion": version,
            "forbiddenTable": self.forbidden,
            "subscriptionGroupTable": self.configs,
        }

    def remove(self, group: str) -> None:
        self.configs.pop(group, None)
        self.forbidden.pop(group, None)

    def set_readable(self, group: str, topic: str, readable: bool) -> None:
        topics = self.forbidden.setdefault(group, {})
        bits = topics.get(topic, 0)
        topics[topic] = bits & ~_READ_FORBIDDEN if readable else bits | _READ_FORBIDDEN
        if not topics[topic]:
            del topics[topic]
        if not topics:
            del self.forbidden[group]


def read_groups(table: dict[str, Any]) -> Groups:
    """Return the usable entries of a saved object; others are logged."""
    groups = Groups()
    for name, group in read_configs(table, "subscriptionGroupTable", SubscriptionGroupConfig).items():
        problem = names.group_problem(name)
        if problem or group.group_name != name:
            log.warning("an entry of subscriptionGroup.json was left out: %s", problem or f"{name!r} is misnamed")
        else:
            groups.configs[name] = group
    for name, topics in (table.get("forbiddenTable") or {}).items():
        groups.forbidden[name] = {str(topic): int(bits) for topic, bits in (topics or {}).items()}
    return groups


class GroupManager(SavedTable[Groups]):
    """All consumer groups of a broker. Every change is counted in ``data_version``.

    An operator's change takes effect, and is answered, once it is saved. A group that its first use makes takes effect
    at once and is saved soon. A kill before that costs nothing: the next use makes it again.
    """

    def __init__(self, table: TableSaver, *, clock: Clock, config: BrokerConfig, makes_groups: bool = True) -> None:
        """``makes_groups``: the first use of a group makes it. A slave makes none; its master does."""
        current = Groups()
        super().__init__(SavedState(current, table, clock=clock, copy=Groups.copy, to_table=Groups.as_table))
        self._config = config
        self.makes_groups = makes_groups
        self._groups, self._forbidden = current.configs, current.forbidden
        self.get = self._groups.get

    def load(self) -> None:
        """Read ``subscriptionGroup.json``."""
        self._state.current.replace(read_groups(self._state.load()))

    def take_over(self, taken: Groups, version: DataVersion) -> list[str]:
        """Take a master's groups with their version in place of these; return the names that are gone."""
        gone = [name for name in self._groups if name not in taken.configs]
        self._state.take_over(lambda groups: groups.replace(taken), version)
        return gone

    def __len__(self) -> int:
        return len(self._groups)

    def all(self) -> dict[str, SubscriptionGroupConfig]:
        """Return a copy of the configurations by name."""
        return dict(self._groups)

    def forbidden_table(self) -> dict[str, dict[str, int]]:
        """Return bits by group and topic, as RocketMQ saves them."""
        return {group: dict(topics) for group, topics in self._forbidden.items()}

    def ensure(self, group: str) -> SubscriptionGroupConfig:
        """Return the group, and make it on its first use where that is allowed. A slave returns what would be made.

        Raises Refusal: SUBSCRIPTION_GROUP_NOT_EXIST, INVALID_PARAMETER for an illegal name, NO_PERMISSION at the limit.
        """
        found = self.get(group)
        if found is not None:
            return found
        self.ensure_all([group])
        return self._groups[group] if self.makes_groups else SubscriptionGroupConfig(group_name=group)

    def ensure_all(self, groups: Iterable[str]) -> None:
        """Make the groups that are missing, all or none, with effect at once. Raises as :meth:`ensure`."""
        missing = [group for group in dict.fromkeys(groups) if group not in self._groups]
        for group in missing:
            self._check_creatable(group)
        if missing and self.makes_groups:
            self._check_count(len(missing))
            made = {group: SubscriptionGroupConfig(group_name=group) for group in missing}
            self._state.change_at_once(lambda groups: groups.configs.update(made))
            log.info("made consumer groups on their first use: %s", ", ".join(missing))

    def require(self, group: str) -> SubscriptionGroupConfig:
        """Return the group; never make it. Raises Refusal(SUBSCRIPTION_GROUP_NOT_EXIST)."""
        found = self.get(group)
        if found is None:
            raise Refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, self._not_exist_text(group))
        return found

    def put(
        self, groups: Iterable[SubscriptionGroupConfig], done: Saved = raise_failure, expected: int | None = None
    ) -> None:
        """Make or replace groups as an operator asks, all or none. ``done`` gets None once they are saved and take
        effect, or the error. ``expected``: only if the table has this version (counter).

        Raises Refusal with the value and the limit.
        """
        self._state.check_version(expected)
        planned = self._state.planned().configs
        wanted = [with_changed_attributes(planned.get(group.group_name), group) for group in groups]
        for group in wanted:
            self._check(group)
        self._check_count(sum(group.group_name not in planned for group in wanted))
        changed = {group.group_name: group for group in wanted if planned.get(group.group_name) != group}
        if changed:
            self._state.change(lambda groups: groups.configs.update(changed), done)
        else:
            self._state.when_saved(done)

    def delete(self, *groups: str, done: Saved = raise_failure) -> None:
        """Delete groups and their permissions. Unknown ones count as deleted. ``done`` as in :meth:`put`."""
        known = [group for group in groups if group in self._state.planned().configs]

        def remove(table: Groups) -> None:
            for group in known:
                table.remove(group)

        if known:
            self._state.change(remove, done)
        else:
            self._state.when_saved(done)

    def is_forbidden(self, group: str, topic: str) -> bool:
        """True when the group may not read the topic."""
        topics = self._forbidden.get(group)
        return topics is not None and bool(topics.get(topic, 0) & _READ_FORBIDDEN)

    def set_readable(self, group: str, topic: str, readable: bool, done: Saved = raise_failure) -> None:
        """Allow or forbid the group to read the topic. ``done`` as in :meth:`put`."""
        self._state.change(lambda groups: groups.set_readable(group, topic, readable), done)

    def _check(self, group: SubscriptionGroupConfig) -> None:
        self.refuse_illegal(group.group_name)
        for name, value, low, high in (
            ("retryQueueNums", group.retry_queue_nums, 0, RETRY_QUEUE_COUNT_MAX),
            ("retryMaxTimes", group.retry_max_times, -1, RETRY_TIMES_MAX),
            ("consumeTimeoutMinute", group.consume_timeout_minute, 1, 24 * 60),
        ):
            if not low <= value <= high:
                raise Refusal(ResponseCode.INVALID_PARAMETER, f"{name}={value}: use {low} to {high}")

    def _check_creatable(self, group: str) -> None:
        self.refuse_illegal(group)
        if not self._config.auto_create_subscription_group and not names.is_system_group(group):
            raise Refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, self._not_exist_text(group))

    def refuse_illegal(self, group: str) -> None:
        """Check a group's name. Raises Refusal(INVALID_PARAMETER) for an illegal one."""
        problem = names.group_problem(group)
        if problem:
            raise Refusal(ResponseCode.INVALID_PARAMETER, problem)

    def _check_count(self, added: int) -> None:
        limit = self._config.group_count_max
        if added and len(self._state.planned().configs) + added > limit:
            raise Refusal(
                ResponseCode.NO_PERMISSION,
                f"this broker has reached its limit of {limit} consumer groups: delete some or raise maxGroups",
            )

    def _not_exist_text(self, group: str) -> str:
        return (
            f"subscription group {group[:127]!r} not exist on {self._config.broker_name}: make it with mqadmin "
            "updateSubGroup, or set autoCreateSubscriptionGroup=true"
        )
