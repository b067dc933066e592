"""The planner's view of name servers and brokers: topics, queues, offsets. Blocking, with a few small requests."""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Final, NamedTuple, Protocol

from pymq.errors import NotFoundError, RefusedError, UnreachableError, UsageError
from pymq.model import sysflag
from pymq.model.fastjson import loads
from pymq.model.hosts import check_name_server
from pymq.model.inner_batch import with_single_records
from pymq.model.names import is_user_topic
from pymq.model.record import StoredMessage, decode_records
from pymq.model.route import MASTER_ID, BrokerData, TopicRoute
from pymq.spark.name_servers import ADDRESS_SERVERS
from pymq.spark.ranges import DEFAULT_GROUP
from pymq.spark.remote import Remote
from pymq.wire.bodies_client import decode_body
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import Command, request
from pymq.wire.header import decode_header
from pymq.wire.headers.offset import (
    OffsetAnswer,
    QueryConsumerOffsetHeader,
    QueueOffsetHeader,
    SearchOffsetHeader,
    UpdateConsumerOffsetHeader,
)
from pymq.wire.headers.pull import PullMessageHeader

DIGEST_SIZE_BYTES: Final = 8


class Queue(NamedTuple):
    """A readable queue with the addresses of its brokers, the master first, and of their filter servers."""

    topic: str
    broker_name: str
    queue_id: int
    addresses: tuple[str, ...]
    filter_servers: tuple[str, ...] = ()


class ClusterView(Protocol):
    """The planner's view of a cluster."""

    def user_topics(self) -> list[str]:
        """Returns the names of all topics of applications, sorted."""
        ...

    def all_topics(self) -> list[str]:
        """Returns the names of all topics, also system, retry and dead-letter ones."""
        ...

    def queues(self, topic: str) -> list[Queue]:
        """Returns the readable queues in order. Raises NotFoundError for a topic without a route."""
        ...

    def min_offset(self, queue: Queue) -> int:
        """Returns the lowest offset that is still stored."""
        ...

    def max_offset(self, queue: Queue) -> int:
        """Returns the offset that the next message will get."""
        ...

    def offset_by_time(self, queue: Queue, time_ms: int) -> int:
        """Returns the first offset stored at or after a time."""
        ...

    def committed(self, queue: Queue, group: str) -> int | None:
        """Returns a consumer group's offset, None when it has none."""
        ...

    def record_digest(self, queue: Queue, offset: int) -> str | None:
        """Returns a digest of the record at an offset, None when it is not stored."""
        ...


class RemoteCluster:
    """A cluster over the network. Raises UnreachableError and RefusedError from every method."""

    def __init__(self, namesrv: str, *, timeout_s: float = 10.0) -> None:
        self._places = [place.strip() for place in re.split("[;,]", namesrv) if place.strip()]
        if not self._places:
            raise UsageError("no name server is given: write host:port, several separated by ';'")
        try:
            for place in self._places:
                check_name_server(place)
        except ValueError as error:
            raise UsageError(str(error)) from error
        self._timeout_s = timeout_s
        self._remotes: dict[str, Remote] = {}

    def __enter__(self) -> RemoteCluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes all connections."""
        for remote in self._remotes.values():
            remote.close()
        self._remotes.clear()

    def all_topics(self) -> list[str]:
        """See :class:`ClusterView`."""
        body = self._ask_namesrv(request(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)).body
        return sorted(loads(body)["topicList"]) if body else []

    def user_topics(self) -> list[str]:
        """See :class:`ClusterView`. Leaves out topics that Apache brokers name after themselves or their cluster."""
        body = self._ask_namesrv(request(RequestCode.GET_BROKER_CLUSTER_INFO)).body
        cluster = loads(body) if body else {}
        own = {*(cluster.get("brokerAddrTable") or {}), *(cluster.get("clusterAddrTable") or {})}
        return [topic for topic in self.all_topics() if is_user_topic(topic) and topic not in own]

    def queues(self, topic: str) -> list[Queue]:
        """See :class:`ClusterView`."""
        command = request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic, "acceptStandardJsonOnly": "true"})
        try:
            body = self._ask_namesrv(command).body
        except RefusedError as error:
            if error.code == ResponseCode.TOPIC_NOT_EXIST:
                raise NotFoundError(f"topic {topic!r} does not exist: list the topics to see their names") from error
            raise
        route: TopicRoute = decode_body(TopicRoute, bytes(body))
        found: list[Queue] = []
        for data in sorted(route.queue_datas, key=lambda data: data.broker_name):
            broker = route.broker(data.broker_name)
            if data.readable and broker is not None and broker.broker_addrs:
                addresses = _read_addresses(broker)
                servers = tuple(one for at in addresses for one in route.filter_server_table.get(at, ()))
                found += [
                    Queue(topic, data.broker_name, number, addresses, servers) for number in range(data.read_queue_nums)
                ]
        return found

    def min_offset(self, queue: Queue) -> int:
        """See :class:`ClusterView`."""
        header = QueueOffsetHeader(topic=queue.topic, queue_id=queue.queue_id)
        return self._offset(queue, request(RequestCode.GET_MIN_OFFSET, header))

    def max_offset(self, queue: Queue) -> int:
        """See :class:`ClusterView`."""
        header = QueueOffsetHeader(topic=queue.topic, queue_id=queue.queue_id)
        return self._offset(queue, request(RequestCode.GET_MAX_OFFSET, header))

    def offset_by_time(self, queue: Queue, time_ms: int) -> int:
        """See :class:`ClusterView`."""
        header = SearchOffsetHeader(topic=queue.topic, queue_id=queue.queue_id, timestamp=time_ms)
        return self._offset(queue, request(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header))

    def committed(self, queue: Queue, group: str) -> int | None:
        """See :class:`ClusterView`."""
        header = QueryConsumerOffsetHeader(
            consumer_group=group, topic=queue.topic, queue_id=queue.queue_id, set_zero_if_not_found=False
        )
        try:
            return self._offset(queue, request(RequestCode.QUERY_CONSUMER_OFFSET, header))
        except RefusedError as error:
            if error.code == ResponseCode.QUERY_NOT_FOUND:
                return None
            raise

    def record_digest(self, queue: Queue, offset: int) -> str | None:
        """See :class:`ClusterView`."""
        header = PullMessageHeader(
            consumer_group=DEFAULT_GROUP,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=offset,
            max_msg_nums=1,
            sys_flag=sysflag.PULL_SUBSCRIPTION,
            commit_offset=0,
            suspend_timeout_millis=0,
            sub_version=0,
            subscription="*",
        )
        answer = self._ask_any(queue.addresses, request(RequestCode.PULL_MESSAGE, header), is_checked=False)
        if answer.code != ResponseCode.SUCCESS:
            return None
        for message in decode_records(with_single_records(bytes(answer.body), offset)):
            if message.queue_offset == offset:
                return _digest(message)
        return None

    def commit_offset(self, queue: Queue, group: str, offset: int) -> None:
        """Sets a consumer group's offset at the queue's master."""
        header = UpdateConsumerOffsetHeader(
            consumer_group=group, topic=queue.topic, queue_id=queue.queue_id, commit_offset=offset
        )
        self._ask_any(queue.addresses[:1], request(RequestCode.UPDATE_CONSUMER_OFFSET, header))

    def _offset(self, queue: Queue, command: Command) -> int:
        answer = self._ask_any(queue.addresses, command)
        return decode_header(OffsetAnswer, answer.ext).offset

    def _ask_namesrv(self, command: Command) -> Command:
        return self._ask_any(ADDRESS_SERVERS.addresses(self._places), command)

    def _ask_any(self, addresses: list[str] | tuple[str, ...], command: Command, *, is_checked: bool = True) -> Command:
        """Returns the answer of the first server that answers; a refusal is raised if ``is_checked``."""
        last: UnreachableError | None = None
        for address in addresses:
            try:
                remote = self._remote(address)
                return remote.ask_ok(command) if is_checked else remote.ask(command)
            except UnreachableError as error:
                last = error
                stale = self._remotes.pop(address, None)
                if stale is not None:
                    stale.close()
        assert last is not None
        raise last

    def _remote(self, address: str) -> Remote:
        remote = self._remotes.get(address)
        if remote is None:
            remote = self._remotes[address] = Remote(address, timeout_s=self._timeout_s)
        return remote


def _digest(message: StoredMessage) -> str:
    """Returns a digest of what identifies a record; all replicas of it have the same."""
    times = f"{message.physical_offset}:{message.born_timestamp_ms}:{message.store_timestamp_ms}:{message.message_id}:"
    return blake2b(times.encode() + message.body, digest_size=DIGEST_SIZE_BYTES).hexdigest()


def _read_addresses(broker: BrokerData) -> tuple[str, ...]:
    ids = sorted(broker.broker_addrs, key=lambda broker_id: (broker_id != MASTER_ID, broker_id))
    return tuple(broker.broker_addrs[broker_id] for broker_id in ids)
