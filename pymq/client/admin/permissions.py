"""A broker's write permission, as each name server shows it: what a broker that goes off-line still gets.

Without it in routes, producers leave the broker at their next look-up. The broker itself takes what is sent to it, and
consumers go on reading.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

import msgspec

from pymq.client.admin.brokers import BrokerAdmin
from pymq.client.admin.cluster import ClusterAdmin
from pymq.client.admin.connection import AdminConnection
from pymq.client.admin.topics import TopicAdmin
from pymq.errors import NotFoundError, PymqError
from pymq.model.names import is_system_group, is_system_topic, is_user_topic
from pymq.model.route import TopicRoute
from pymq.model.tables import PERM_READ_WRITE, TopicConfig
from pymq.wire.bodies_route import decode_route
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.headers.route import RouteHeader

LOOK_UPS_AT_ONCE = 32
_WRITTEN_KEY = "putMessageTimesTotal"


@dataclass(frozen=True)
class ServerView:
    """What one name server shows of a broker: its topics of applications, those with write permission, and those of
    them that no other broker has with write permission. ``problem`` says why nothing is known.
    """

    address: str
    topics: frozenset[str] = frozenset()
    writable: frozenset[str] = frozenset()
    only_here: frozenset[str] = frozenset()
    problem: str = ""


@dataclass(frozen=True)
class BrokerView:
    """A broker name as all name servers show it; ``address`` is its master's, None without a master."""

    name: str
    cluster: str
    address: str | None
    servers: list[ServerView]

    @property
    def topics(self) -> frozenset[str]:
        """The broker's topics of applications on any name server."""
        return frozenset().union(*(server.topics for server in self.servers))

    @property
    def writable(self) -> frozenset[str]:
        """The topics that any name server shows as writable."""
        return frozenset().union(*(server.writable for server in self.servers))

    @property
    def only_here(self) -> frozenset[str]:
        """The topics that producers can write nowhere else, at any name server."""
        return frozenset().union(*(server.only_here for server in self.servers))


@dataclass(frozen=True)
class Activity:
    """What a broker still does: messages stored since its start, and unread messages by group, those without left out.

    None where the broker does not say. ``problem`` says why it does not answer.
    """

    written: int | None = None
    unread: dict[str, int] = field(default_factory=dict)
    problem: str = ""


class PermissionAdmin:
    """Looks at brokers' write permission, and changes it at every name server."""

    def __init__(
        self, connection: AdminConnection, cluster: ClusterAdmin, topics: TopicAdmin, brokers: BrokerAdmin
    ) -> None:
        self._connection = connection
        self._cluster = cluster
        self._topics = topics
        self._brokers = brokers

    async def look(self, name: str, besides: Collection[str] = ()) -> BrokerView:
        """Return how each name server shows a broker. Raises NotFoundError for a name that none knows.

        ``besides``: other brokers that don't count when it is said that a topic is written nowhere else.
        """
        info = await self._cluster.info()
        data = info.broker_addr_table.get(name)
        if data is None:
            names = ", ".join(sorted(info.broker_addr_table)) or "none"
            raise NotFoundError(f"no broker {name!r}: there are {names}")
        system = await self._topics.system_names()
        topics = [name for name in await self._topics.names(data.cluster) if name not in system and is_user_topic(name)]
        gate = asyncio.Semaphore(LOOK_UPS_AT_ONCE)
        servers = [
            self._server_view(address, name, frozenset({name, *besides}), topics, gate)
            for address in self._connection.namesrv_addresses
        ]
        return BrokerView(name, data.cluster, data.master_address, list(await asyncio.gather(*servers)))

    async def _server_view(
        self, address: str, name: str, drained: frozenset[str], topics: list[str], gate: asyncio.Semaphore
    ) -> ServerView:
        async def route(topic: str) -> tuple[str, TopicRoute | None]:
            async with gate:
                return topic, await self._route_at(address, topic)

        try:
            # The first look-up alone: one that is away costs one time-out.
            found = [await route(topic) for topic in topics[:1]]
            found += await asyncio.gather(*map(route, topics[1:]))
            if not topics:
                await self._connection.ask_broker(address, RequestCode.GET_BROKER_CLUSTER_INFO)
        except PymqError as error:
            return ServerView(address, problem=str(error))
        here = {topic: found_route for topic, found_route in found if found_route and _share(found_route, name)}
        writable = [topic for topic, found_route in here.items() if name in _writers(found_route)]
        return ServerView(
            address,
            frozenset(here),
            frozenset(writable),
            frozenset(topic for topic in writable if drained.issuperset(_writers(here[topic]))),
        )

    async def _route_at(self, address: str, topic: str) -> TopicRoute | None:
        header = RouteHeader(topic=topic, accept_standard_json_only=True)
        missing = frozenset({ResponseCode.TOPIC_NOT_EXIST})
        answer = await self._connection.ask_or_none(address, RequestCode.GET_ROUTEINFO_BY_TOPIC, header, missing)
        return None if answer is None else decode_route(answer.body)

    async def activity(self, address: str) -> Activity:
        """Return what the broker at an address still does. Never raises for one that is away."""
        try:
            runtime = await self._brokers.runtime_info(address)
            stats = await self._brokers.consume_stats(address)
        except PymqError as error:
            return Activity(problem=str(error))
        written = runtime.get(_WRITTEN_KEY, "")
        unread: dict[str, int] = {}
        for entry in stats.consume_stats_list:
            for group, shares in entry.items():
                lag = sum(max(place.lag, 0) for share in shares for place in share.offset_table.values())
                if lag and not is_system_group(group):
                    unread[group] = unread.get(group, 0) + lag
        return Activity(int(written) if written.isdigit() else None, unread)

    async def read_only(self, address: str) -> list[TopicConfig]:
        """Return the topics, but for those of the system, that the broker itself does not allow to be written and read.

        RocketMQ 5 has such topics of its own, and refuses that they are put.
        """
        configs = (await self._topics.configs(address)).values()
        return [
            config
            for config in configs
            if config.perm & PERM_READ_WRITE != PERM_READ_WRITE and not is_system_topic(config.topic_name or "")
        ]

    async def announce(self, address: str, configs: Iterable[TopicConfig]) -> None:
        """Have the broker report topics as they are, because name servers show another permission.

        Restoring the write permission of a broker makes all its topics writable in routes.
        """
        for config in configs:
            # Attributes are there already, and 5.x brokers refuse to set unchangeable ones again.
            await self._topics.put(address, msgspec.structs.replace(config, attributes={}))


def _share(route: TopicRoute, name: str) -> bool:
    return any(share.broker_name == name for share in route.queue_datas)


def _writers(route: TopicRoute) -> list[str]:
    """Return the names of the brokers that producers write the topic to."""
    return [share.broker_name for share in route.queue_datas if share.writable and share.write_queue_nums]
