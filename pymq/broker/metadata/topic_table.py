"""TopicTable: topic configurations by name. It knows how many there are of each kind, so that no limit needs a walk."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pymq.model import names
from pymq.model.tables import DataVersion, TopicConfig


class TopicTable:
    """The content of ``topics.json``. ``internal_count`` topics are retry or dead-letter topics.

    Read :attr:`configs`; only the methods change it.
    """

    __slots__ = ("configs", "internal_count")

    def __init__(self, configs: dict[str, TopicConfig] | None = None, internal_count: int = 0) -> None:
        self.configs = {} if configs is None else configs
        self.internal_count = internal_count

    @property
    def ordinary_count(self) -> int:
        """The number of topics that are neither retry nor dead-letter topics."""
        return len(self.configs) - self.internal_count

    def copy(self) -> TopicTable:
        """Return a table that changes on its own."""
        return TopicTable(self.configs.copy(), self.internal_count)

    def put(self, topics: Iterable[TopicConfig]) -> None:
        """Add or replace topics."""
        before = len(self.configs)
        for topic in topics:
            self.configs[topic.topic_name] = topic
            if len(self.configs) > before:
                before += 1
                self.internal_count += is_internal(topic.topic_name)

    def add(self, topic: TopicConfig) -> None:
        """Add a topic unless there is one of its name."""
        if topic.topic_name not in self.configs:
            self.put([topic])

    def remove(self, name: str) -> None:
        """Remove a topic; an unknown one counts as removed."""
        if self.configs.pop(name, None) is not None:
            self.internal_count -= is_internal(name)

    def replace(self, topics: Iterable[TopicConfig]) -> None:
        """Hold these topics in place of all others."""
        self.configs.clear()
        self.internal_count = 0
        self.put(topics)

    def as_table(self, version: DataVersion) -> dict[str, Any]:
        """Return the saved object. Encode it before the next change."""
        return {"dataVersion": version, "topicConfigTable": self.configs}


def is_internal(topic: str) -> bool:
    """Return True for a topic that belongs to a group: for its retries or its dead letters."""
    return topic.startswith((names.RETRY_PREFIX, names.DLQ_PREFIX))
