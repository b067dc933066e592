"""The client instances of a cluster and the places of its groups, gathered from all brokers on request.

Name servers know neither: clients report to brokers, and brokers keep the offsets.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from pymq.client.admin.brokers import BrokerAdmin
from pymq.client.admin.cluster import ClusterAdmin
from pymq.client.admin.groups import GroupAdmin
from pymq.model.message import MessageQueue
from pymq.wire.bodies_admin import ConsumeOffset

PRODUCER, CONSUMER = "producer", "consumer"
GROUPS_AT_ONCE = 16


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
        gate = asyncio.Semaphore(GROUPS_AT_ONCE)

        async def members(group: str) -> list[Instance]:
            async with gate:
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
        consumers = await asyncio.gather(*map(members, await self._groups.configs(address)))
        return producers + [one for part in consumers for one in part]

    async def positions(self) -> dict[str, dict[MessageQueue, ConsumeOffset]]:
        """Return, for each group with offsets, its place in every queue that it has read; one request a broker."""
        masters = await self._cluster.masters()
        found: dict[str, dict[MessageQueue, ConsumeOffset]] = {}
        for _, groups in await self._cluster.asking.each(masters, self._brokers.group_offsets):
            for group, places in groups.items():
                found.setdefault(group, {}).update(places)
        return {group: dict(sorted(found[group].items())) for group in sorted(found)}
