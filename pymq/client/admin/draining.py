"""What is still to be read in a topic's upper queues, by group: what fewer queues would hide from consumers.

A topic shrinks without loss in three steps: fewer write queues, every group reads the upper queues to their ends, fewer
read queues. Brokers keep the messages of queues that are no longer read, but no consumer gets them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from pymq.client.admin.asking import BrokerTarget
from pymq.client.admin.groups import GroupAdmin
from pymq.client.admin.offsets import OffsetAdmin
from pymq.client.admin.topics import TopicAdmin
from pymq.errors import NotFoundError
from pymq.model.message import MessageQueue
from pymq.model.names import is_system_group
from pymq.model.tables import TopicConfig
from pymq.wire.bodies_admin import TopicOffset

_BROADCASTING = "BROADCASTING"


class Mode(StrEnum):
    """How a group stands to a topic now."""

    ONLINE = "online"
    OFFLINE = "offline"  # it has offsets, and no member is connected
    BROADCAST = "broadcast"  # each member keeps its own offsets: brokers don't know them


class GroupLeft(NamedTuple):
    """A group, and the number of messages in the upper queues that it has not read."""

    group: str
    mode: Mode
    unread: int

    @property
    def is_awaited(self) -> bool:
        """False for a group whose progress brokers don't know."""
        return self.mode is not Mode.BROADCAST


@dataclass(frozen=True)
class Draining:
    """The state of a topic on its way to ``to`` queues on each broker."""

    topic: str
    to: int
    brokers: list[tuple[BrokerTarget, TopicConfig]]
    ends: dict[MessageQueue, int]  # the next offset of each upper queue that has messages
    message_count: int  # in the upper queues
    groups: list[GroupLeft]

    @property
    def written(self) -> list[BrokerTarget]:
        """The brokers that still write to upper queues."""
        return [target for target, config in self.brokers if config.write_queue_nums > self.to]

    @property
    def read(self) -> list[BrokerTarget]:
        """The brokers whose upper queues consumers still read."""
        return [target for target, config in self.brokers if config.read_queue_nums > self.to]

    def awaited(self, without: Sequence[str] = ()) -> list[GroupLeft]:
        """Return the groups that have messages to read in the upper queues, except those in ``without``."""
        return [left for left in self.groups if left.unread and left.is_awaited and left.group not in without]


class DrainAdmin:
    """Looks at a topic's upper queues through the calls of the other admin parts. Changes nothing."""

    def __init__(self, topics: TopicAdmin, groups: GroupAdmin, offsets: OffsetAdmin) -> None:
        self._topics = topics
        self._groups = groups
        self._offsets = offsets

    async def look(self, topic: str, to: int, targets: Sequence[BrokerTarget] | None = None) -> Draining:
        """Return what stands in queues ``to`` and above on the brokers, by default on all that hold the topic.

        Raises NotFoundError for a topic that one of them lacks.
        """
        chosen = list(targets) if targets is not None else await self._topics.targets(topic)
        brokers = await self.configs(topic, chosen)
        upper: dict[MessageQueue, TopicOffset] = {}
        addresses: dict[str, str] = {}  # by the name that the broker gives itself
        for target in chosen:
            for queue, at in (await self._topics.stats(topic, [target])).items():
                if queue.queue_id >= to and at.max_offset > at.min_offset:
                    upper[queue] = at
                    addresses[queue.broker_name] = target.address
        names = [name for name in await self._topics.groups(topic) if not is_system_group(name)]
        groups = [await self._left(name, chosen, upper, addresses) for name in names]
        return Draining(
            topic,
            to,
            brokers,
            {queue: at.max_offset for queue, at in upper.items()},
            sum(at.max_offset - at.min_offset for at in upper.values()),
            groups,
        )

    async def configs(self, topic: str, targets: Sequence[BrokerTarget]) -> list[tuple[BrokerTarget, TopicConfig]]:
        """Return the topic's configuration on each broker. Raises NotFoundError when one of them lacks it."""
        brokers = []
        for target in targets:
            config = await self._topics.config(target.address, topic)
            if config is None:
                raise NotFoundError(f"no topic {topic!r} on {target.name}: pymq topic route {topic} shows where it is")
            brokers.append((target, config))
        return brokers

    async def _left(
        self,
        group: str,
        targets: Sequence[BrokerTarget],
        upper: Mapping[MessageQueue, TopicOffset],
        addresses: Mapping[str, str],
    ) -> GroupLeft:
        answers = await asyncio.gather(*(self._groups.connections(target.address, group) for target in targets))
        online = [answer for answer in answers if answer is not None]
        if any(answer.message_model == _BROADCASTING for answer in online):
            return GroupLeft(group, Mode.BROADCAST, 0)
        committed = await self._offsets.committed(group, addresses, list(upper))
        unread = sum(at.max_offset - max(at.min_offset, committed[queue] or 0) for queue, at in upper.items())
        return GroupLeft(group, Mode.ONLINE if online else Mode.OFFLINE, max(unread, 0))
