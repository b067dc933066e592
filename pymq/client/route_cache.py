"""A cache of topic routes: fetched on first use, then refreshed, and kept while no name server answers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import msgspec

from pymq.client.name_servers import NameServers
from pymq.errors import NoQueueError, NotFoundError, PymqError, RefusedError, RequestTimeoutError, UnreachableError
from pymq.model.message import MessageQueue
from pymq.model.names import AUTO_CREATE_TOPIC
from pymq.model.route import BrokerData, TopicRoute
from pymq.model.tables import perm_text
from pymq.net.futures import mark_seen
from pymq.wire.bodies_route import decode_route
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import request
from pymq.wire.headers.route import RouteHeader

log = logging.getLogger(__name__)

AUTO_CREATE_QUEUE_COUNT = 4  # Java: DefaultMQProducer.defaultTopicQueueNums
LOOK_UP_TIMEOUT_S = 3.0  # for all name servers together
LOOK_UP_SHARE_MIN_S = 1.0  # for each of them
_NO_ROUTE = frozenset({ResponseCode.TOPIC_NOT_EXIST})


def write_queues(topic: str, route: TopicRoute) -> list[MessageQueue]:
    """Return the queues a producer may use: of writable brokers with a master, sorted. An order configuration wins."""
    if route.order_topic_conf:
        return _ordered_queues(topic, route.order_topic_conf)
    queues: list[MessageQueue] = []
    for data in sorted(route.queue_datas, key=lambda one: one.broker_name):
        broker = route.broker(data.broker_name)
        if data.writable and broker is not None and broker.master_address is not None:
            queues += [MessageQueue(topic, data.broker_name, i) for i in range(data.write_queue_nums)]
    return queues


def read_queues(topic: str, route: TopicRoute) -> list[MessageQueue]:
    """Return the queues of all readable brokers, sorted."""
    queues: list[MessageQueue] = []
    for data in sorted(route.queue_datas, key=lambda one: one.broker_name):
        if data.readable:
            queues += [MessageQueue(topic, data.broker_name, i) for i in range(data.read_queue_nums)]
    return queues


def why_not_written(topic: str, route: TopicRoute) -> str:
    """Return the reason why a topic has no queue to write to, by broker."""
    reasons = []
    for data in sorted(route.queue_datas, key=lambda one: one.broker_name):
        broker = route.broker(data.broker_name)
        if not data.writable:
            reasons.append(f"its permission on {data.broker_name} is {perm_text(data.perm)}")
        elif broker is None or broker.master_address is None:
            reasons.append(f"{data.broker_name} has no master now")
        else:
            reasons.append(f"it has {data.write_queue_nums} write queues on {data.broker_name}")
    return f"topic {topic} has no queue to write to: {', '.join(reasons) or 'no broker has it'}"


def why_not_read(topic: str, route: TopicRoute) -> str:
    """Return the reason why a topic has no queue to read from, by broker."""
    perms = [f"its permission on {data.broker_name} is {perm_text(data.perm)}" for data in route.queue_datas]
    return f"topic {topic} has no queue to read from: {', '.join(sorted(perms)) or 'no broker has it'}"


def _ordered_queues(topic: str, order_conf: str) -> list[MessageQueue]:
    """Return the queues that an order configuration such as ``"broker-a:4;broker-b:8"`` names."""
    queues: list[MessageQueue] = []
    for part in order_conf.split(";"):
        broker_name, _, count = part.partition(":")
        if count.isdigit():
            queues += [MessageQueue(topic, broker_name, i) for i in range(int(count))]
    return queues


def _template_route(template: TopicRoute) -> TopicRoute:
    """Return the route that a topic will have once a broker has created it (spec: min(4, read) queues)."""
    queue_datas = []
    for data in template.queue_datas:
        count = min(AUTO_CREATE_QUEUE_COUNT, data.read_queue_nums)
        queue_datas.append(msgspec.structs.replace(data, read_queue_nums=count, write_queue_nums=count))
    return TopicRoute(queue_datas=queue_datas, broker_datas=template.broker_datas)


class RouteCache:
    """Routes by topic. ``on_change(topic)`` is called for every route that is new or has changed."""

    def __init__(self, name_servers: NameServers, on_change: Callable[[str], None] | None = None) -> None:
        self._name_servers = name_servers
        self._on_change = on_change
        self._routes: dict[str, TopicRoute] = {}
        self._expected: dict[str, TopicRoute] = {}  # of topics that a first send will create
        self.made_topics: set[str] = set()  # that a first send created, or was to
        self._write_queues: dict[str, list[MessageQueue]] = {}
        self._brokers: dict[str, BrokerData] = {}
        self._fetching: dict[str, asyncio.Task[TopicRoute]] = {}

    async def route(self, topic: str) -> TopicRoute:
        """Return a route from the cache or a name server. Raises NotFoundError, UnreachableError, RefusedError."""
        return self._routes.get(topic) or await self._fetch(topic)

    def known_queues(self, topic: str) -> list[MessageQueue] | None:
        """Return what :meth:`queues_to_write` returns at once, or None if that must ask a name server."""
        return self._write_queues.get(topic)

    async def queues_to_write(self, topic: str, timeout_s: float | None = None) -> list[MessageQueue]:
        """Return the writable queues; for an unknown topic the queues that its first message will create.

        Waits at most ``timeout_s`` if it is given; the look-up goes on and serves the next call.
        Raises NotFoundError when the topic is unknown and can't be created, NoQueueError when it has no writable queue;
        UnreachableError, RequestTimeoutError.
        """
        queues = self._write_queues.get(topic)
        if queues is not None:
            return queues
        try:
            async with asyncio.timeout(timeout_s):
                return await self._look_up_to_write(topic)
        except TimeoutError:
            raise RequestTimeoutError(
                f"no route of topic {topic} within {timeout_s:g} s: are the name servers "
                f"{', '.join(self._name_servers.addresses)} running?"
            ) from None

    async def _look_up_to_write(self, topic: str) -> list[MessageQueue]:
        try:
            route = await self._fetch(topic)
        except NotFoundError as missing:
            route = await self._expect(topic, missing)
        queues = write_queues(topic, route)
        if not queues:
            raise NoQueueError(why_not_written(topic, route))
        self._write_queues[topic] = queues
        return queues

    async def queues_to_read(self, topic: str) -> list[MessageQueue]:
        """Return the readable queues. Raises NotFoundError, UnreachableError, RefusedError."""
        return read_queues(topic, await self.route(topic))

    async def brokers_to_read(self, topic: str) -> list[str]:
        """Return the sorted names of the brokers with readable queues. Raises as :meth:`queues_to_read`."""
        return sorted({queue.broker_name for queue in await self.queues_to_read(topic)})

    async def write_address(self, queue: MessageQueue, timeout_s: float | None = None) -> str:
        """Return the address of the queue's master. Waits at most ``timeout_s`` for a look-up, if it is given.

        Raises UnreachableError when the broker has no master now, and what :meth:`queues_to_write` raises.
        """
        broker = self._brokers.get(queue.broker_name)
        if broker is None:
            await self.queues_to_write(queue.topic, timeout_s)
            broker = self._brokers.get(queue.broker_name)
        address = broker.master_address if broker is not None else None
        if address is None:
            raise UnreachableError(f"broker {queue.broker_name} has no master now: no name server knows its address")
        return address

    def known_address(self, queue: MessageQueue) -> str | None:
        """Return what :meth:`write_address` returns at once, None if that must look it up."""
        broker = self._brokers.get(queue.broker_name)
        return None if broker is None else broker.master_address

    def has_replicas(self, broker_name: str) -> bool:
        """Return whether the broker has slaves, or followers, of which one may become the master."""
        broker = self._brokers.get(broker_name)
        return broker is not None and any(broker_id != 0 for broker_id in broker.broker_addrs)

    def awaits_master(self, topic: str) -> bool:
        """Return whether a writable broker of the topic has replicas and no master now."""
        route = self._routes.get(topic)
        if route is None:
            return False
        writable = {data.broker_name for data in route.queue_datas if data.writable}
        return any(data.broker_name in writable and data.master_address is None for data in route.broker_datas)

    async def read_address(self, queue: MessageQueue, broker_id: int = 0) -> str:
        """Return the address to read ``queue`` from: that of ``broker_id``, else of the master, else of any broker.

        Raises UnreachableError when there is none, and what :meth:`route` raises.
        """
        broker = self._brokers.get(queue.broker_name)
        if broker is None:
            await self.route(queue.topic)
            broker = self._brokers.get(queue.broker_name)
        address = broker.read_address(broker_id) if broker is not None else None
        if address is None:
            raise UnreachableError(f"broker {queue.broker_name} of topic {queue.topic} has no address now")
        return address

    def known_read_address(self, broker_name: str) -> str | None:
        """Return what :meth:`read_address` returns at once, None if that must look it up."""
        broker = self._brokers.get(broker_name)
        return None if broker is None else broker.read_address()

    def brokers(self) -> list[BrokerData]:
        """Return all brokers of all routes in the cache."""
        return list(self._brokers.values())

    def clusters(self) -> list[str]:
        """Return the clusters of all brokers in the cache, sorted."""
        return sorted({broker.cluster for broker in self._brokers.values()})

    def cached(self, topic: str) -> TopicRoute | None:
        """Return the route if it is in the cache."""
        return self._routes.get(topic)

    def topics(self) -> list[str]:
        """Return the topics in the cache, also topics that a first send will create."""
        return [*self._routes, *self._expected]

    async def refresh(self) -> None:
        """Fetch every route again. One that can't be fetched stays as it is: clients work on without name servers."""
        for topic in self.topics():
            try:
                await self._fetch(topic)
            except UnreachableError as error:
                log.warning("routes stay as they are: %s", error)
                return
            except PymqError as error:
                log.debug("the route of %s stays as it is: %s", topic, error)

    async def renew(self, topic: str) -> TopicRoute:
        """Fetch a route whether it is cached or not. Raises NotFoundError, UnreachableError, RefusedError."""
        return await self._fetch(topic)

    async def _fetch(self, topic: str) -> TopicRoute:
        """Fetch a route; concurrent calls for one topic share one request."""
        task = self._fetching.get(topic)
        loop = asyncio.get_running_loop()
        if task is None or task.get_loop() is not loop:  # the other loop ran in the process that forked this one
            task = loop.create_task(self._ask(topic))
            self._fetching[topic] = task
            task.add_done_callback(lambda done: self._fetched(topic, done))
        return await asyncio.shield(task)

    def _fetched(self, topic: str, task: asyncio.Task[TopicRoute]) -> None:
        del self._fetching[topic]
        mark_seen(task)

    async def _ask(self, topic: str) -> TopicRoute:
        route = await self._look_up(topic)
        self._keep(topic, route)
        return route

    async def _look_up(self, topic: str) -> TopicRoute:
        header = RouteHeader(topic=topic, accept_standard_json_only=True)
        # One that is silent leaves time for the next, within what a send usually has.
        share_s = max(LOOK_UP_TIMEOUT_S / len(self._name_servers.addresses), LOOK_UP_SHARE_MIN_S)
        command = request(RequestCode.GET_ROUTEINFO_BY_TOPIC, header)
        answer = await self._name_servers.invoke(command, share_s, missing_codes=_NO_ROUTE)
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            raise NotFoundError(f"topic {topic} does not exist: no name server has a route for it")
        if answer.code != ResponseCode.SUCCESS:
            raise RefusedError(answer.code, answer.remark)
        route = decode_route(answer.body)
        self._name_servers.note_brokers(route.broker_datas)
        return route

    def _keep(self, topic: str, route: TopicRoute) -> None:
        self._expected.pop(topic, None)
        known = self._routes.get(topic)
        if known == route:
            return
        self._routes[topic] = route
        self._write_queues.pop(topic, None)
        for broker in route.broker_datas:
            self._brokers[broker.broker_name] = broker
        if self._on_change is not None:
            self._on_change(topic)

    async def _expect(self, topic: str, missing: NotFoundError) -> TopicRoute:
        """Return the route an unknown topic will get (Java: tryToFindTopicPublishInfo with the TBW102 template)."""
        try:
            route = _template_route(await self._look_up(AUTO_CREATE_TOPIC))
        except NotFoundError:
            raise NotFoundError(f"{missing}, and no broker creates topics by itself: create it first") from missing
        self._expected[topic] = route
        self.made_topics.add(topic)
        for broker in route.broker_datas:
            self._brokers.setdefault(broker.broker_name, broker)
        if self._on_change is not None:
            self._on_change(topic)
        return route
