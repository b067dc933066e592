"""The client instances of a cluster and the places of its groups, gathered from all brokers on request.

Name servers know neither: clients report to brokers, and brokers keep the offsets.
"""

from __future__ import annotations

from typing import NamedTuple

from pymq.client.admin.asking import by_key
from pymq.client.admin.brokers import BrokerAdmin
from pymq.client.admin.cluster import ClusterAdmin
from pymq.client.admin.groups import GroupAdmin
from pymq.model.message import MessageQueue
from pymq.wire.bodies_rows import GroupPlaces

PRODUCER, CONSUMER = "producer", "consumer"


class Instance(NamedTuple):
    """One client in one group. ``brokers`` are the names of the brokers that it is connected to.

    ``address`` is "host:port" as the first of them sees it, ``version`` the ordinal of Java's MQVersion.
    """

    kind: str
    group: str
    client_id: str
    address: str
    language: str | None
    version: int
    brokers: tuple[str, ...]


class QueuePlace(NamedTuple):
    """A group's place in one queue: the queue's end, the committed and the pulled offset, None where there is none, and
    messages that pops got and have not acknowledged, None where the broker does not count them: RocketMQ's."""

    end: int
    committed: int | None
    pulled: int | None
    invisible: int | None

    @property
    def lag(self) -> int | None:
        """The number of messages after the committed offset; None without one."""
        return None if self.committed is None else self.end - self.committed


class InstanceAdmin:
    """Calls about connected clients and about groups' places, each gathered from every master."""

    def __init__(self, cluster: ClusterAdmin, groups: GroupAdmin, brokers: BrokerAdmin) -> None:
        self._cluster = cluster
        self._groups = groups
        self._brokers = brokers

    async def all(self) -> list[Instance]:
        """Return every producer and consumer that is connected now, by kind, group and client id."""
        masters = await self._cluster.masters()
        found: dict[tuple[str, str, str], Instance] = {}
        for target, instances in await self._cluster.asking.each(masters, self._of_broker):
            for one in instances:
                key = one[:3]
                known = found.get(key)
                found[key] = one._replace(brokers=(*(known.brokers if known else ()), target.name))
        return [found[key] for key in sorted(found)]

    async def _of_broker(self, address: str) -> list[Instance]:
        async def members(group: str) -> list[Instance]:
            answer = await self._groups.connections(address, group)
            return [
                Instance(CONSUMER, group, one.client_id, one.client_addr, one.language, one.version, ())
                for one in (answer.connection_set if answer is not None else [])
            ]

        producers = [
            # Java writes the address as "/host:port".
            Instance(PRODUCER, group, one.client_id, one.remote_ip.lstrip("/"), one.language, one.version, ())
            for group, infos in (await self._brokers.producers(address)).items()
            for one in infos
        ]
        consumers = await by_key(await self._groups.configs(address), members)
        return producers + [one for part in consumers.values() for one in part]

    async def positions(self) -> dict[str, dict[MessageQueue, QueuePlace]]:
        """Return, for each group with offsets, its place in every queue that it reads, sorted.

        PyMQ's brokers answer in pages, others take a request for each group.
        """
        masters = await self._cluster.masters()
        found: dict[str, dict[MessageQueue, QueuePlace]] = {}
        for target, groups in await self._cluster.asking.each(masters, self._groups.places_at):
            for group, topics in groups.items():
                places = found.setdefault(group, {})
                for topic, at in topics.items():
                    places |= _queue_places(topic, target.name, at)
        return {group: dict(sorted(found[group].items())) for group in sorted(found)}


def _queue_places(topic: str, broker: str, places: GroupPlaces) -> dict[MessageQueue, QueuePlace]:
    return {
        MessageQueue(topic, broker, queue_id): QueuePlace(
            end, committed, pulled, None if places.invisible is None else places.invisible.get(queue_id, 0)
        )
        for queue_id, (end, committed, pulled) in enumerate(
            zip(places.ends, places.committed, places.pulled, strict=True)
        )
    }
