"""TopicManager: which topics this broker has, with how many queues and which permission; kept in ``topics.json``."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping

import msgspec

from pymq.broker.state import Table, read_configs, read_version
from pymq.broker.topic_rules import changed_attributes, check_topic_config, check_topic_name, invalid, not_exist_text
from pymq.clock import Clock
from pymq.config import BrokerConfig
from pymq.errors import Refusal
from pymq.model import names
from pymq.model.tables import PERM_INHERIT, PERM_READ_WRITE, DataVersion, TopicConfig
from pymq.wire.codes import ResponseCode

log = logging.getLogger(__name__)

# Gets the names of topics that were made, changed or deleted.
TopicListener = Callable[[list[str]], None]


class TopicManager:
    """All topics of a broker. Every change is saved before it returns and counted in ``data_version``."""

    def __init__(self, table: Table, *, clock: Clock, config: BrokerConfig) -> None:
        self.data_version = DataVersion()
        self._table = table
        self._clock = clock
        self._config = config
        self._topics: dict[str, TopicConfig] = {}
        self._system_names: frozenset[str] = frozenset()
        self._listeners: list[TopicListener] = []
        # Looked up once for each send and pull; bound here because a method call more is measurable.
        self.get = self._topics.get

    def load(self) -> None:
        """Reads ``topics.json`` and makes the system topics that are missing."""
        loaded = self._table.load()
        self.data_version = read_version(loaded)
        for name, topic in read_configs(loaded, "topicConfigTable", TopicConfig).items():
            problem = names.topic_problem(name)
            if problem or topic.topic_name != name:
                log.warning("an entry was left out of topics.json: %s", problem or f"{name!r} is misnamed")
            else:
                self._topics[name] = topic
        system = list(self._system_topics())
        self._system_names = frozenset(topic.topic_name for topic in system)
        missing = [topic for topic in system if topic.topic_name not in self._topics]
        if missing:
            self._store(missing)

    def all(self) -> dict[str, TopicConfig]:
        """A copy of name -> configuration."""
        return dict(self._topics)

    def is_system(self, topic: str) -> bool:
        """True for topics that exist on every broker without being asked for."""
        return topic in self._system_names or names.is_system_topic(topic)

    def system_names(self) -> list[str]:
        """The system topics, sorted."""
        return sorted(self._system_names)

    def require(self, topic: str) -> TopicConfig:
        """The topic's configuration. Raises Refusal(TOPIC_NOT_EXIST)."""
        found = self.get(topic)
        if found is None:
            raise Refusal(ResponseCode.TOPIC_NOT_EXIST, self._not_exist_text(topic))
        return found

    def add_listener(self, listener: TopicListener) -> None:
        """``listener`` gets the names that changed, after the change is saved."""
        self._listeners.append(listener)

    def put(self, topics: Iterable[TopicConfig]) -> None:
        """Makes or replaces topics as an operator asked. Raises Refusal naming the value and the limit; all or none."""
        wanted = list(topics)
        for topic in wanted:
            check_topic_config(topic)
        self._check_count(sum(one.topic_name not in self._topics for one in wanted if _is_counted(one.topic_name)))
        changed = [topic for topic in wanted if self._topics.get(topic.topic_name) != topic]
        if changed:
            self._store(changed)

    def delete(self, topic: str) -> bool:
        """Forgets a topic; False when there was none. Raises Refusal for a system topic."""
        if self.is_system(topic):
            raise invalid(f"{topic} is a system topic: it can't be deleted")
        if topic not in self._topics:
            return False
        kept = self._topics[topic]
        del self._topics[topic]
        try:
            self._save()
        except Exception:
            self._topics[topic] = kept
            raise
        self._notify([topic])
        return True

    def for_send(self, topic: str, template: str, queue_count: int) -> TopicConfig:
        """The topic to send to, made from ``template`` (TBW102) with ``queue_count`` queues if need be.

        Raises Refusal: INVALID_PARAMETER for an illegal name, TOPIC_NOT_EXIST when the topic may not be made,
        NO_PERMISSION at the limit of topics.
        """
        found = self.get(topic)
        return found if found is not None else self._auto_create(topic, template, queue_count)

    def ensure_internal(self, topic: str, queue_count: int = 1, perm: int = PERM_READ_WRITE) -> TopicConfig:
        """A retry or dead-letter topic, made if missing. The limit of groups bounds their number."""
        found = self.get(topic)
        if found is None:
            self.ensure_all_internal({topic: queue_count}, perm)
            found = self._topics[topic]
        return found

    def ensure_all_internal(self, queue_counts: Mapping[str, int], perm: int = PERM_READ_WRITE) -> None:
        """Several such topics (name -> queues), those that are missing made with one save."""
        missing = {topic: count for topic, count in queue_counts.items() if topic not in self._topics}
        for topic in missing:
            check_topic_name(topic)
        if missing:
            self._store([_plain(topic, count, perm) for topic, count in missing.items()])

    def changed_attributes(self, topic: str, text: str | None) -> dict[str, str]:
        """The topic's attributes after ``+name=value,-name`` is applied. Raises Refusal(INVALID_PARAMETER)."""
        found = self.get(topic)
        return changed_attributes({} if found is None else found.attributes, text)

    def _auto_create(self, topic: str, template_name: str, queue_count: int) -> TopicConfig:
        check_topic_name(topic)
        template = self.get(template_name)
        if template is None or not self._config.auto_create_topic_enable or not template.perm & PERM_INHERIT:
            if topic.startswith(names.RETRY_PREFIX):
                return self.ensure_internal(topic)
            raise Refusal(ResponseCode.TOPIC_NOT_EXIST, self._not_exist_text(topic))
        if _is_counted(topic):
            self._check_count(1)
        count = max(1, min(queue_count, template.write_queue_nums))
        made = TopicConfig(
            topic_name=topic,
            read_queue_nums=count,
            write_queue_nums=count,
            perm=template.perm & ~PERM_INHERIT,
            topic_sys_flag=template.topic_sys_flag,
            topic_filter_type=template.topic_filter_type,
        )
        self._store([made])
        log.info("made topic %s with %d queues on a first send", topic, count)
        return made

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
        yield _plain(f"{cluster}_REPLY_TOPIC", 1)
        yield _plain(names.TIMER_TOPIC, 1)

    def _not_exist_text(self, topic: str) -> str:
        return not_exist_text(topic, self._config.broker_name, self._config.broker_cluster_name)

    def _check_count(self, added: int) -> None:
        limit = self._config.topic_count_max
        if added and sum(map(_is_counted, self._topics)) + added > limit:
            raise Refusal(
                ResponseCode.NO_PERMISSION,
                f"this broker has its limit of {limit} topics: delete some or raise maxTopics",
            )

    def _store(self, topics: list[TopicConfig]) -> None:
        before = {topic.topic_name: self._topics.get(topic.topic_name) for topic in topics}
        self._topics.update({topic.topic_name: topic for topic in topics})
        try:
            self._save()
        except Exception:
            for name, old in before.items():
                if old is None:
                    del self._topics[name]
                else:
                    self._topics[name] = old
            raise
        self._notify([topic.topic_name for topic in topics])

    def _save(self) -> None:
        version = self.data_version.next(self._clock.now_ms())
        builtins = {"dataVersion": version, "topicConfigTable": self._topics}
        self._table.save(msgspec.to_builtins(builtins))
        self.data_version = version

    def _notify(self, changed: list[str]) -> None:
        for listener in self._listeners:
            listener(changed)


def _plain(name: str, queue_count: int, perm: int = PERM_READ_WRITE) -> TopicConfig:
    return TopicConfig(topic_name=name, read_queue_nums=queue_count, write_queue_nums=queue_count, perm=perm)


def _is_counted(topic: str) -> bool:
    return not topic.startswith((names.RETRY_PREFIX, names.DLQ_PREFIX))
