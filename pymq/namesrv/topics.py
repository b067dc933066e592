"""TopicManager: which broker names have which topic, with how many queues and which permission."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec

from pymq.model.route import QueueData
from pymq.model.tables import PERM_READ_WRITE, PERM_WRITE, SYS_FLAG_UNIT, SYS_FLAG_UNIT_SUBSCRIPTION, TopicConfig

# What an entry takes in memory, as measured; a topic's name comes on top, with two bytes a character.
TOPIC_BYTES = 280
SHARE_BYTES = 120


class TopicManager:
    """topic -> broker name -> queues. Pure state without a clock: brokers report, clients look up."""

    def __init__(self, count: Callable[[int], None] = lambda size_bytes: None) -> None:
        """``count`` gets by how many bytes the table has grown (below 0: shrunk)."""
        self._count = count
        self._queues: dict[str, dict[str, QueueData]] = {}
        self.removal_count = 0  # entries removed since the start
        self.share_count = 0  # entries of one topic on one broker name

    def __len__(self) -> int:
        return len(self._queues)

    def __contains__(self, topic: str) -> bool:
        return topic in self._queues

    def names(self) -> list[str]:
        """Return all topic names, in the order of their first registration."""
        return list(self._queues)

    def queues(self, topic: str) -> list[QueueData]:
        """Return the topic's queues, one entry per broker name; empty when no broker has the topic."""
        return list(self._queues.get(topic, {}).values())

    def has(self, topic: str, broker_name: str) -> bool:
        return broker_name in self._queues.get(topic, ())

    def put(self, broker_name: str, config: TopicConfig) -> None:
        """Create or replace one broker's share of a topic."""
        self.put_queues(
            config.topic_name,
            QueueData(
                broker_name=broker_name,
                read_queue_nums=config.read_queue_nums,
                write_queue_nums=config.write_queue_nums,
                perm=config.perm,
                topic_sys_flag=config.topic_sys_flag,
            ),
        )

    def put_queues(self, topic: str, queues: QueueData) -> None:
        """Create or replace one broker's share of a topic, given as route data."""
        self._count(self.growth(topic, queues.broker_name))
        shares = self._queues.setdefault(topic, {})
        self.share_count += queues.broker_name not in shares
        shares[queues.broker_name] = queues

    def growth(self, topic: str, broker_name: str) -> int:
        """Return how many bytes more the table has with a topic on a broker name."""
        shares = self._queues.get(topic)
        if shares is None:
            return TOPIC_BYTES + 2 * len(topic) + SHARE_BYTES
        return 0 if broker_name in shares else SHARE_BYTES

    def remove(self, topic: str, broker_names: Iterable[str] | None = None) -> None:
        """Remove a topic, on every broker or on the named ones."""
        shares = self._queues.get(topic)
        if shares is None:
            return
        for broker_name in list(shares) if broker_names is None else broker_names:
            if shares.pop(broker_name, None) is not None:
                self.share_count -= 1
                self.removal_count += 1
                self._count(-SHARE_BYTES)
        if not shares:
            del self._queues[topic]
            self._count(-TOPIC_BYTES - 2 * len(topic))

    def remove_broker(self, broker_name: str) -> None:
        """Remove every topic's share on one broker name."""
        for topic in self.of_brokers({broker_name}):
            self.remove(topic, (broker_name,))

    def wipe_write(self, broker_name: str) -> int:
        """Remove the write permission from every topic on a broker name. Returns how many topics it has."""
        return self._change_perm(broker_name, lambda perm: perm & ~PERM_WRITE)

    def add_write(self, broker_name: str) -> int:
        """Set every topic on a broker name to read and write. Drops the other bits, as in Java."""
        return self._change_perm(broker_name, lambda _: PERM_READ_WRITE)

    def of_brokers(self, broker_names: set[str]) -> list[str]:
        """Return the topics with queues on any of these broker names."""
        return [topic for topic, shares in self._queues.items() if not broker_names.isdisjoint(shares)]

    def unit_topics(self) -> list[str]:
        """Return the topics with the unit flag."""
        return [topic for topic, flag in self._sys_flags() if flag & SYS_FLAG_UNIT]

    def unit_subscription_topics(self, *, without_unit: bool = False) -> list[str]:
        """Return the topics with the unit-subscription flag; ``without_unit`` leaves out those with the unit flag."""
        return [
            topic
            for topic, flag in self._sys_flags()
            if flag & SYS_FLAG_UNIT_SUBSCRIPTION and not (without_unit and flag & SYS_FLAG_UNIT)
        ]

    def _sys_flags(self) -> Iterator[tuple[str, int]]:
        for topic, shares in self._queues.items():
            yield topic, next(iter(shares.values())).topic_sys_flag

    def _change_perm(self, broker_name: str, change: Callable[[int], int]) -> int:
        count = 0
        for shares in self._queues.values():
            queues = shares.get(broker_name)
            if queues is not None:
                shares[broker_name] = msgspec.structs.replace(queues, perm=change(queues.perm))
                count += 1
        return count
