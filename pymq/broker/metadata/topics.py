"""TopicManager: the topics of this broker with their queue numbers and permissions; saved in ``topics.json``."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import msgspec

from pymq.broker.metadata.saved_state import SavedState, raise_failure
from pymq.broker.metadata.saved_table import SavedTable
from pymq.broker.metadata.table_reading import read_configs
from pymq.broker.metadata.table_saver import Saved, TableSaver
from pymq.broker.metadata.topic_rules import (
    changed_attributes,
    check_topic_config,
    check_topic_name,
    invalid,
    not_exist_text,
    with_kept_queue_type,
)
from pymq.broker.metadata.topic_table import TopicTable, is_internal
from pymq.clock import Clock
from pymq.config import BrokerConfig
from pymq.errors import Refusal, StoreError
from pymq.model import names
from pymq.model.tables import (
    PERM_INHERIT,
    PERM_READ_WRITE,
    SYS_FLAG_UNIT,
    SYS_FLAG_UNIT_SUBSCRIPTION,
    DataVersion,
    TopicConfig,
)
from pymq.wire.codes import ResponseCode

log = logging.getLogger(__name__)

DEFAULT_QUEUES = "defaultTopicQueueNums"
TEMPLATE_SETTINGS = frozenset({DEFAULT_QUEUES, "autoCreateTopicEnable"})
INTERNAL_TOPICS_PER_GROUP = 2  # one for its retries, one for its dead letters

# Gets the names of topics that were made, changed or deleted.
TopicListener = Callable[[list[str]], None]


class TopicManager(SavedTable[TopicTable]):
    """All topics of a broker. Every change is counted in ``data_version``.

    A change by an operator or a first send takes effect, and is answered, once it is saved. A topic that a group makes
    takes effect at once and is saved soon. A kill before that leaves its messages in their queues, where they can be
    read once the topic exists again. RocketMQ writes the file without an fsync, so a power loss does the same there.
    """

    def __init__(self, table: TableSaver, *, clock: Clock, config: BrokerConfig) -> None:
        current = TopicTable()
        super().__init__(SavedState(current, table, clock=clock, copy=TopicTable.copy, to_table=TopicTable.as_table))
        self._config = config
        self._topics = current.configs
        self._system_names: frozenset[str] = frozenset()
        self.had_table = True  # False when the directory came without one
        self._listeners: list[TopicListener] = []
        # Each send and pull looks a topic up; bound here because one more call can be measured.
        self.get = self._topics.get

    def load(self, *, is_copy: bool = False) -> None:
        """Read ``topics.json`` and make missing system topics. ``is_copy``: this table is a slave's, so make none."""
        loaded = self._state.load()
        self.had_table = bool(loaded)
        self._state.current.put(read_topics(loaded).values())
        system = list(self._system_topics())
        self._system_names = frozenset(topic.topic_name for topic in system)
        missing = [topic for topic in system if topic.topic_name not in self._topics]
        if missing and not is_copy:
            self._make_at_once(missing)

    def take_over(self, taken: dict[str, TopicConfig], version: DataVersion) -> list[str]:
        """Take a master's topics with their version in place of these; return the names that are gone."""
        before = self.all()
        self._state.take_over(lambda topics: topics.replace(taken.values()), version)
        changed = [name for name in {**before, **taken} if before.get(name) != taken.get(name)]
        if changed:
            self._notify(changed)
        return [name for name in before if name not in taken]

    def __len__(self) -> int:
        return len(self._topics)

    def all(self) -> dict[str, TopicConfig]:
        """Return a copy of the configurations by name."""
        return dict(self._topics)

    def is_system(self, topic: str) -> bool:
        """Return True for a topic that every broker has."""
        return topic in self._system_names or names.is_system_topic(topic)

    def system_names(self) -> list[str]:
        """Return the system topics, sorted."""
        return sorted(self._system_names)

    def require(self, topic: str) -> TopicConfig:
        """Return the topic's configuration. Raises Refusal(TOPIC_NOT_EXIST)."""
        found = self.get(topic)
        if found is None:
            raise Refusal(ResponseCode.TOPIC_NOT_EXIST, self._not_exist_text(topic))
        return found

    def add_listener(self, listener: TopicListener) -> None:
        """Have ``listener`` called with the names that changed, as soon as a change takes effect."""
        self._listeners.append(listener)

    def put(self, topics: Iterable[TopicConfig], done: Saved = raise_failure, expected: int | None = None) -> None:
        """Make or replace topics as an operator asks, all or none. ``done`` gets None once they are saved and take
        effect, or the error. ``expected``: only if the table has this version (counter).

        Raises Refusal with the value and the limit.
        """
        self._state.check_version(expected)
        planned = self._state.planned().configs
        wanted = [with_kept_queue_type(planned.get(topic.topic_name), topic) for topic in topics]
        for topic in wanted:
            check_topic_config(topic)
        self._check_count([topic.topic_name for topic in wanted if topic.topic_name not in planned])
        changed = {topic.topic_name: topic for topic in wanted if planned.get(topic.topic_name) != topic}
        if changed:
            self._state.change(lambda table: table.put(changed.values()), self._then_notify(list(changed), done))
        else:
            self._state.when_saved(done)

    def delete(self, *topics: str, done: Saved = raise_failure) -> None:
        """Delete topics. Unknown ones count as deleted. ``done`` as in :meth:`put`.

        Raises Refusal for a system topic.
        """
        for topic in topics:
            if self.is_system(topic):
                raise invalid(f"{topic} is a system topic: it can't be deleted")
        known = [topic for topic in topics if topic in self._state.planned().configs]

        def remove(table: TopicTable) -> None:
            for topic in known:
                table.remove(topic)

        if known:
            self._state.change(remove, self._then_notify(known, done))
        else:
            self._state.when_saved(done)

    def make_for_send(self, topic: str, template: str, queue_count: int, done: Saved, *, is_unit: bool = False) -> None:
        """Make the topic of a first send, with ``queue_count`` queues, or as many as ``template`` (TBW102) has for
        writing, and the template's permission. ``is_unit``: the producer is of a unit of a larger system.

        ``done`` as in :meth:`put`. The send's answer must not come before it, or a crash could lose the topic of a
        confirmed message. Raises Refusal: INVALID_PARAMETER for an illegal name, TOPIC_NOT_EXIST when the topic may not
        be made, NO_PERMISSION at the limit of topics.
        """
        check_topic_name(topic)
        planned = self._state.planned().configs
        if topic in planned:
            self._state.when_saved(done)
            return
        made = self._made_from(planned.get(template), topic, queue_count, is_unit=is_unit)
        self._check_count([topic])
        self._state.change(lambda table: table.add(made), self._then_notify([topic], done))
        log.info("making topic %s with %d queues for a first send", topic, made.write_queue_nums)

    def follow_settings(self, changed: Collection[str]) -> None:
        """Make the template topic TBW102 what settings that ``changed`` at run time ask for.

        RocketMQ reads both settings at the start alone.
        """
        config, name = self._config, names.AUTO_CREATE_TOPIC
        if config.is_slave or not config.auto_create_topic_enable or not TEMPLATE_SETTINGS.intersection(changed):
            return
        count, template = config.default_topic_queue_nums, self._state.planned().configs.get(name)
        if template is None:
            self._system_names |= {name}
            self._make_at_once([_plain(name, count, PERM_READ_WRITE | PERM_INHERIT)])
        elif DEFAULT_QUEUES in changed:
            self._make_at_once([msgspec.structs.replace(template, read_queue_nums=count, write_queue_nums=count)])

    def ensure_internal(self, topic: str, queue_count: int = 1, perm: int = PERM_READ_WRITE) -> TopicConfig:
        """Return a retry or dead-letter topic, and make it if missing. Raises Refusal(NO_PERMISSION) at their limit."""
        found = self.get(topic)
        if found is None:
            self.ensure_all_internal({topic: queue_count}, perm)
            found = self._topics[topic]
        return found

    def widen_internal(self, topic: str, queue_count: int) -> None:
        """Make a retry topic with so many queues, or give one with fewer more of them.

        Raises as :meth:`ensure_internal`.
        """
        found = self.ensure_internal(topic, queue_count)
        if found.write_queue_nums < queue_count or found.read_queue_nums < queue_count:
            count = max(queue_count, found.queue_count)
            self._make_at_once([msgspec.structs.replace(found, read_queue_nums=count, write_queue_nums=count)])

    def ensure_system(self, topic: str) -> TopicConfig:
        """Return a system topic that is made on its first use, with one queue. No limit stops it."""
        if topic not in self._topics:
            self._make_at_once([_plain(topic, 1)])
        return self._topics[topic]

    def ensure_all_internal(self, queue_counts: Mapping[str, int], perm: int = PERM_READ_WRITE) -> None:
        """Make the missing ones of several such topics (name -> queues), all or none, with one save.

        Raises as :meth:`ensure_internal`.
        """
        missing = {topic: count for topic, count in queue_counts.items() if topic not in self._topics}
        for topic in missing:
            check_topic_name(topic)
        if missing:
            self._check_count(missing)
            self._make_at_once([_plain(topic, count, perm) for topic, count in missing.items()])

    def attributes(self, topic: str) -> dict[str, str]:
        """Return the topic's attributes with all changes that wait for a save; empty for an unknown topic."""
        found = self._state.planned().configs.get(topic)
        return {} if found is None else dict(found.attributes)

    def changed_attributes(self, topic: str, text: str | None) -> dict[str, str]:
        """Return the topic's attributes after ``+name=value,-name`` is applied. Raises Refusal(INVALID_PARAMETER)."""
        return changed_attributes(self.attributes(topic), text)

    def _made_from(self, template: TopicConfig | None, topic: str, queue_count: int, *, is_unit: bool) -> TopicConfig:
        is_retry = topic.startswith(names.RETRY_PREFIX)
        flag = (SYS_FLAG_UNIT_SUBSCRIPTION if is_retry else SYS_FLAG_UNIT) if is_unit else 0
        if template is None or not self._makes_topics(template):
            if is_retry:
                return msgspec.structs.replace(_plain(topic, 1), topic_sys_flag=flag)
            raise Refusal(ResponseCode.TOPIC_NOT_EXIST, self._not_exist_text(topic))
        count = max(1, min(queue_count, template.write_queue_nums))
        return TopicConfig(
            topic_name=topic,
            read_queue_nums=count,
            write_queue_nums=count,
            perm=template.perm & ~PERM_INHERIT,
            topic_sys_flag=flag,
            topic_filter_type=template.topic_filter_type,
        )

    def _makes_topics(self, template: TopicConfig) -> bool:
        """An operator's own template makes topics in any case; RocketMQ's broker and cluster topics would, too."""
        is_on = self._config.auto_create_topic_enable or not self.is_system(template.topic_name)
        return is_on and bool(template.perm & PERM_INHERIT)

    def _system_topics(self) -> Iterable[TopicConfig]:
        config = self._config
        broker, cluster = config.broker_name, config.broker_cluster_name
        inherited = PERM_READ_WRITE | PERM_INHERIT
        if config.auto_create_topic_enable:
            yield _plain(names.AUTO_CREATE_TOPIC, config.default_topic_queue_nums, inherited)
        yield _plain(cluster, 16, inherited)
        if broker != cluster:
            yield _plain(broker, 1, inherited)
        yield _plain(names.SELF_TEST_TOPIC, 1)
        yield _plain(names.BENCHMARK_TOPIC, 1024)
        yield _plain(names.OFFSET_MOVED_TOPIC, 1)
        yield _plain(names.SCHEDULE_TOPIC, len(config.delay_level_ms))
        if config.trace_topic_enable:
            yield _plain(names.TRACE_TOPIC, 1)
        yield _plain(names.HALF_TOPIC, 1)
        yield _plain(names.OP_HALF_TOPIC, 1)
        yield _plain(names.reply_topic(cluster), 1)
        yield _plain(names.TIMER_TOPIC, 1)
        yield _plain(names.REVIVE_TOPIC_PREFIX + cluster, config.revive_queue_num)

    def _not_exist_text(self, topic: str) -> str:
        return not_exist_text(topic, self._config.broker_name, self._config.broker_cluster_name)

    def _check_count(self, added: Collection[str]) -> None:
        """Check the limits for new topics of these names. Raises Refusal(NO_PERMISSION)."""
        if not added:
            return
        planned, internal = self._state.planned(), sum(map(is_internal, added))
        ordinary, limit = len(added) - internal, self._config.topic_count_max
        if ordinary and planned.ordinary_count + ordinary > limit:
            raise Refusal(
                ResponseCode.NO_PERMISSION,
                f"this broker has reached its limit of {limit} topics: delete some or raise maxTopics",
            )
        limit = self._config.group_count_max * INTERNAL_TOPICS_PER_GROUP
        if internal and planned.internal_count + internal > limit:
            raise Refusal(
                ResponseCode.NO_PERMISSION,
                f"this broker has reached its limit of {limit} retry and dead-letter topics: delete those of groups "
                "that are gone, or raise maxGroups",
            )

    def _make_at_once(self, topics: list[TopicConfig]) -> None:
        self._state.change_at_once(lambda table: table.put(topics))
        self._notify([topic.topic_name for topic in topics])

    def _then_notify(self, names: list[str], done: Saved) -> Saved:
        def saved(error: StoreError | OSError | None) -> None:
            if error is None:
                self._notify(names)
            done(error)

        return saved

    def _notify(self, changed: list[str]) -> None:
        for listener in self._listeners:
            listener(changed)


def read_topics(table: dict[str, Any]) -> dict[str, TopicConfig]:
    """Return the usable entries of a saved object; others are logged."""
    topics = {}
    for name, topic in read_configs(table, "topicConfigTable", TopicConfig).items():
        problem = names.topic_problem(name)
        if problem or topic.topic_name != name:
            log.warning("an entry of topics.json was left out: %s", problem or f"{name!r} is misnamed")
        else:
            topics[name] = topic
    return topics


def _plain(name: str, queue_count: int, perm: int = PERM_READ_WRITE) -> TopicConfig:
    return TopicConfig(topic_name=name, read_queue_nums=queue_count, write_queue_nums=queue_count, perm=perm)
