"""The planner's view of name servers and brokers: topics, queues, offsets. Blocking, with a few small requests."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from pymq.clock import Clock, SystemClock
from pymq.errors import RefusedError, RequestTimeoutError, UnreachableError, UsageError
from pymq.model.fastjson import loads
from pymq.model.hosts import check_name_server, is_address_server
from pymq.model.names import is_user_topic
from pymq.model.record import StoredMessage
from pymq.model.route import MASTER_ID, BrokerData, TopicRoute
from pymq.model.tables import SubscriptionGroupConfig
from pymq.net.address_server import named_by
from pymq.net.name_server_list import REFRESH_MS, RETRY_MS
from pymq.security.credentials import Credentials
from pymq.spark.planning.ranges import Identity, QueueRange
from pymq.spark.planning.remote import Remote
from pymq.spark.planning.single_records import pull_of_one, record_at, record_digest
from pymq.units import split_name_servers
from pymq.wire.bodies_admin import ConsumeQueueAnswer, TopicStats, decode_admin_body, encode_admin_body
from pymq.wire.bodies_client import decode_body
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import Command, request
from pymq.wire.header import decode_header
from pymq.wire.headers.admin import QueryConsumeQueueHeader, TopicHeader, TopicStatsAnswer
from pymq.wire.headers.offset import (
    OffsetAnswer,
    QueryConsumerOffsetHeader,
    QueueOffsetHeader,
    SearchOffsetHeader,
    UpdateConsumerOffsetHeader,
)

# Requests to one server that wait for their answers: enough to hide the way there and back.
REQUESTS_IN_FLIGHT_MAX: Final = 64
# One answer with the ends of more queues takes a busy broker too long: each queue is asked for, with small answers.
STATISTICS_QUEUES_MAX: Final = 1_000
SLOW_SERVER_PAUSE_S: Final = 0.5
_NO_GROUP: Final = ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


class Queue(NamedTuple):
    """A readable queue with the addresses of its brokers, the master first, and of their filter servers.

    ``has_master`` says whether the first address is a master's.
    """

    topic: str
    broker_name: str
    queue_id: int
    addresses: tuple[str, ...]
    filter_servers: tuple[str, ...] = ()
    has_master: bool = True

    def range(self, first: int, last: int, identity: Identity | None = None) -> QueueRange:
        """Return a range of its offsets."""
        return QueueRange(*self[:3], first, last, self.addresses, has_master=self.has_master, identity=identity)


class SlaveBehindError(UnreachableError):
    """Only a slave answers, which lacks what was there: it may be behind its master, so this is no loss."""


class Bounds(NamedTuple):
    """A queue's first offset that is still stored, and the offset that its next message will get.

    ``by_master``: whether a master says so; a slave's may be behind. ``deleted_below``: see
    :class:`~pymq.wire.headers.admin.TopicStatsAnswer`, None of brokers that don't say it.
    """

    low: int
    high: int
    by_master: bool = True
    deleted_below: int | None = None

    def check_known(self, queue: Queue, offset: int) -> None:
        """Raise SlaveBehindError where a slave ends before an offset that is known."""
        if self.high < offset and not self.by_master:
            raise SlaveBehindError(
                f"{queue.topic} {queue.broker_name}/{queue.queue_id}: its master does not answer, and a slave ends at "
                f"{self.high}, before {offset} that were there: start the master, or wait until the slave has caught up"
            )


class Entry(NamedTuple):
    """A message's place in its broker's log, and its stored size."""

    place: int
    size_bytes: int

    @property
    def end(self) -> int:
        """The place behind it."""
        return self.place + self.size_bytes


class _Answer(NamedTuple):
    address: str
    command: Command


_Ask = tuple[Sequence[str], Command]
"""The servers that can answer, in order, and the request."""


class ClusterView(Protocol):
    """The planner's view of a cluster."""

    def user_topics(self) -> list[str]:
        """Return the names of all topics of applications, sorted."""
        ...

    def all_topics(self) -> list[str]:
        """Return the names of all topics, also system, retry and dead-letter ones."""
        ...

    def queues_of(self, topics: Sequence[str]) -> dict[str, list[Queue]]:
        """Return the readable queues of many topics; leave out topics without a route."""
        ...

    def bounds(self, queues: Sequence[Queue]) -> dict[Queue, Bounds]:
        """Return the first offset of each queue and the one that its next message will get."""
        ...

    def offset_by_time(self, queue: Queue, time_ms: int) -> int:
        """Return the first offset stored at or after a time."""
        ...

    def committed(self, queue: Queue, group: str) -> int | None:
        """Return a consumer group's offset, None when it has none."""
        ...

    def record_digests(self, places: Mapping[Queue, int]) -> dict[Queue, str]:
        """Return digests of the records at these offsets; leave out records that are not stored."""
        ...


class AddressServers:
    """The last answer of each address server. It is asked again every two minutes; while it is away, that stays."""

    def __init__(self, clock: Clock, fetch: Callable[[str], list[str]] = named_by) -> None:
        self._clock = clock
        self._fetch = fetch
        self._found: dict[str, list[str]] = {}  # by URL
        self._due_ms: dict[str, int] = {}

    def addresses(self, places: Sequence[str]) -> list[str]:
        """Return the addresses among ``places`` and of its URLs. Raises UnreachableError for none."""
        found = [place for place in places if not is_address_server(place)]
        problem = UnreachableError("no name server is known")
        for url in filter(is_address_server, places):
            try:
                found += self._named_by(url)
            except UnreachableError as error:
                problem = error
        if not found:
            raise problem
        return list(dict.fromkeys(found))

    def _named_by(self, url: str) -> list[str]:
        if url in self._found and self._clock.monotonic_ms() < self._due_ms[url]:
            return self._found[url]
        try:
            self._found[url] = self._fetch(url)
        except UnreachableError:
            if url not in self._found:
                raise
            self._due_ms[url] = self._clock.monotonic_ms() + RETRY_MS
        else:
            self._due_ms[url] = self._clock.monotonic_ms() + REFRESH_MS
        return self._found[url]


# A stream makes a view for each batch: all of a process share the answers.
ADDRESS_SERVERS = AddressServers(SystemClock())


class RemoteCluster:
    """A cluster over the network. Raises UnreachableError and RefusedError from every method."""

    def __init__(
        self,
        namesrv: str,
        *,
        credentials: str = "",
        timeout_s: float = 10.0,
        retry_budget_s: float = 0.0,
        sleep: Callable[[float], None] = time.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """``credentials``: a reference, see :meth:`Credentials.find <pymq.client.Credentials.find>`.

        ``retry_budget_s``: how long servers that are too busy to answer within ``timeout_s`` are asked again.
        """
        self._credentials = Credentials.find(credentials)
        self._places = split_name_servers(namesrv)
        if not self._places:
            raise UsageError("no name server is given: write host:port, several separated by ';'")
        try:
            for place in self._places:
                check_name_server(place)
        except ValueError as error:
            raise UsageError(str(error)) from error
        self._timeout_s = timeout_s
        self._retry_budget_s = retry_budget_s
        self._sleep = sleep
        self._monotonic = monotonic
        self._remotes: dict[str, Remote] = {}

    def __enter__(self) -> RemoteCluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        for remote in self._remotes.values():
            remote.close()
        self._remotes.clear()

    def all_topics(self) -> list[str]:
        """See :class:`ClusterView`."""
        body = self._ask_namesrv(request(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)).body
        return sorted(loads(body)["topicList"]) if body else []

    def broker_names(self) -> set[str]:
        """Return the names of the brokers that are registered."""
        return set(self._cluster_info().get("brokerAddrTable") or {})

    def _cluster_info(self) -> Mapping[str, Any]:
        body = self._ask_namesrv(request(RequestCode.GET_BROKER_CLUSTER_INFO)).body
        return loads(body) if body else {}

    def user_topics(self) -> list[str]:
        """See :class:`ClusterView`. Leaves out topics that Apache brokers name after themselves or their cluster."""
        cluster = self._cluster_info()
        own = {*(cluster.get("brokerAddrTable") or {}), *(cluster.get("clusterAddrTable") or {})}
        return [topic for topic in self.all_topics() if is_user_topic(topic) and topic not in own]

    def queues_of(self, topics: Sequence[str]) -> dict[str, list[Queue]]:
        """See :class:`ClusterView`."""
        code = RequestCode.GET_ROUTEINFO_BY_TOPIC
        servers = ADDRESS_SERVERS.addresses(self._places)
        fields = [{"topic": topic, "acceptStandardJsonOnly": "true"} for topic in topics]
        answers = self._ask_each([(servers, request(code, each)) for each in fields])
        return {
            topic: _readable(topic, decode_body(TopicRoute, bytes(_checked(answer).body)))
            for topic, answer in zip(topics, answers, strict=True)
            if answer.command.code != ResponseCode.TOPIC_NOT_EXIST
        }

    def bounds(self, queues: Sequence[Queue]) -> dict[Queue, Bounds]:
        """See :class:`ClusterView`.

        Asks for a topic's queues at once, and for each queue where that is refused or would be too much at once.
        """
        counts = Counter(queue[:2] for queue in queues)
        places = [
            queue
            for queue in {queue[:2]: queue for queue in queues}.values()
            if counts[queue[:2]] <= STATISTICS_QUEUES_MAX
        ]
        code = RequestCode.GET_TOPIC_STATS_INFO
        answers = self._ask_each([(one.addresses, request(code, TopicHeader(topic=one.topic))) for one in places])
        found: dict[tuple[str, str, int], Bounds] = {}
        for queue, answer in zip(places, answers, strict=True):
            if answer.command.code == ResponseCode.SUCCESS:
                by_master = _is_master(queue, answer.address)
                deleted_below = decode_header(TopicStatsAnswer, answer.command.ext).pymq_deleted_below
                stats = decode_admin_body(TopicStats, bytes(answer.command.body))
                for key, at in stats.offset_table.items():
                    bounds = Bounds(at.min_offset, at.max_offset, by_master, deleted_below)
                    found[queue.topic, queue.broker_name, key.queue_id] = bounds
        missing = [queue for queue in queues if queue[:3] not in found]
        found.update({queue[:3]: bounds for queue, bounds in self._bounds_of_each(missing).items()})
        return {queue: found[queue[:3]] for queue in queues}

    def _bounds_of_each(self, queues: Sequence[Queue]) -> dict[Queue, Bounds]:
        ends: list[list[int]] = []
        by_master = [True] * len(queues)
        for code in (RequestCode.GET_MIN_OFFSET, RequestCode.GET_MAX_OFFSET):
            headers = [QueueOffsetHeader(topic=queue.topic, queue_id=queue.queue_id) for queue in queues]
            asks = [(queue.addresses, request(code, each)) for queue, each in zip(queues, headers, strict=True)]
            answers = self._ask_each(asks)
            by_master = [_is_master(queue, answer.address) for queue, answer in zip(queues, answers, strict=True)]
            ends.append([_offset_in(_checked(answer)) for answer in answers])
        # The least offset of an empty batch queue is -1.
        found = zip(queues, *ends, by_master, strict=True)
        return {queue: Bounds(max(0, low), high, is_sure) for queue, low, high, is_sure in found}

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

    def record_digests(self, places: Mapping[Queue, int]) -> dict[Queue, str]:
        """See :class:`ClusterView`."""
        return {queue: record_digest(found) for queue, found in self.records(places).items()}

    def records(self, places: Mapping[Queue, int]) -> dict[Queue, StoredMessage]:
        """Return the records at these offsets; leave out those that are not stored."""
        asks = [(queue.addresses, pull_of_one(queue.topic, queue.queue_id, offset)) for queue, offset in places.items()]
        found = {
            queue: record_at(answer.command, offset)
            for (queue, offset), answer in zip(places.items(), self._ask_each(asks), strict=True)
        }
        return {queue: record for queue, record in found.items() if record is not None}

    def entries(self, asks: Sequence[tuple[Queue, int, int]]) -> list[list[Entry]]:
        """Return the entries of each (queue, first offset, count), fewer where a queue has fewer or these are too many.

        Raises RefusedError of a broker that does not list them.
        """
        found: list[list[Entry]] = []
        headers = [
            QueryConsumeQueueHeader(topic=queue.topic, queue_id=queue.queue_id, index=offset, count=count)
            for queue, offset, count in asks
        ]
        code = RequestCode.QUERY_CONSUME_QUEUE
        answers = self._ask_each(
            [(ask[0].addresses, request(code, header)) for ask, header in zip(asks, headers, strict=True)]
        )
        for (_, _, count), answer in zip(asks, answers, strict=True):
            listed = decode_admin_body(ConsumeQueueAnswer, bytes(_checked(answer).body)).queue_data or []
            found.append([Entry(one.physic_offset, max(0, one.physic_size)) for one in listed[:count]])
        return found

    def commit_offsets(self, group: str, offsets: Mapping[Queue, int]) -> None:
        """Set a consumer group's offsets at the queues' masters; make the group where a broker demands that."""
        asks: list[_Ask] = []
        for queue, offset in offsets.items():
            header = UpdateConsumerOffsetHeader(
                consumer_group=group, topic=queue.topic, queue_id=queue.queue_id, commit_offset=offset
            )
            asks.append((queue.addresses[:1], request(RequestCode.UPDATE_CONSUMER_OFFSET, header)))
        answers = self._ask_each(asks)
        # Apache's brokers take no offsets of a group that they don't have.
        refused = [place for place, answer in enumerate(answers) if answer.command.code == _NO_GROUP]
        for address in {answers[place].address for place in refused}:
            body = encode_admin_body(SubscriptionGroupConfig(group_name=group))
            make = request(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, body)
            _checked(*self._ask_each([((address,), make)]))
        for place, answer in zip(refused, self._ask_each([asks[place] for place in refused]), strict=True):
            answers[place] = answer
        for answer in answers:
            _checked(answer)

    def _offset(self, queue: Queue, command: Command) -> int:
        return _offset_in(_checked(*self._ask_each([(queue.addresses, command)])))

    def _ask_namesrv(self, command: Command) -> Command:
        return _checked(*self._ask_each([(ADDRESS_SERVERS.addresses(self._places), command)]))

    def _ask_each(self, asks: Sequence[_Ask]) -> list[_Answer]:
        """Return an answer for each request, from the first of its servers that answers.

        Servers that are too slow are asked again for what is left, until they are for the retry budget without any
        answer. Raises UnreachableError.
        """
        answers: dict[int, _Answer] = {}
        since_s, count = self._monotonic(), 0
        while (error := self._ask_once(asks, answers)) is not None:
            if len(answers) > count:
                since_s, count = self._monotonic(), len(answers)
            is_slow = isinstance(error, RequestTimeoutError)
            if not is_slow or self._monotonic() - since_s >= self._retry_budget_s:
                raise error
            self._sleep(SLOW_SERVER_PAUSE_S)
        return [answers[number] for number in range(len(asks))]

    def _ask_once(self, asks: Sequence[_Ask], answers: dict[int, _Answer]) -> UnreachableError | None:
        """Ask for all answers that are missing, each server in turn; return an error when some are still missing."""
        waiting = [number for number in range(len(asks)) if number not in answers]
        last: UnreachableError | None = None
        for turn in range(max((len(addresses) for addresses, _ in asks), default=0)):
            by_address: dict[str, list[int]] = {}
            for number in waiting:
                addresses = asks[number][0]
                if turn < len(addresses):
                    by_address.setdefault(addresses[turn], []).append(number)
            for address, numbers in by_address.items():
                try:
                    self._ask_server(address, [(number, asks[number][1]) for number in numbers], answers)
                except UnreachableError as error:
                    # That a server is slow says more than that another one is not there.
                    last = last if isinstance(last, RequestTimeoutError) else error
                    stale = self._remotes.pop(address, None)
                    if stale is not None:
                        stale.close()
            waiting = [number for number in waiting if number not in answers]
        if not waiting:
            return None
        return last or UnreachableError("a queue has no broker: wait until one is registered")

    def _ask_server(self, address: str, asks: Iterable[tuple[int, Command]], answers: dict[int, _Answer]) -> None:
        """Ask one server, with many requests on the way at once; add the answers by the requests' numbers."""
        remote = self._remote(address)
        numbers: dict[int, int] = {}

        def receive() -> None:
            answer = remote.receive()
            number = numbers.pop(answer.opaque, None)
            if number is not None:
                answers[number] = _Answer(address, answer)

        for number, command in asks:
            numbers[remote.send(command)] = number
            if len(numbers) >= REQUESTS_IN_FLIGHT_MAX:
                receive()
        while numbers:
            receive()

    def _remote(self, address: str) -> Remote:
        remote = self._remotes.get(address)
        if remote is None:
            remote = self._remotes[address] = Remote(address, timeout_s=self._timeout_s, credentials=self._credentials)
        return remote


def _checked(answer: _Answer) -> Command:
    """Return a successful answer. Raises RefusedError."""
    if answer.command.code != ResponseCode.SUCCESS:
        raise RefusedError(answer.command.code, answer.command.remark, answer.address)
    return answer.command


def _offset_in(command: Command) -> int:
    return decode_header(OffsetAnswer, command.ext).offset


def _readable(topic: str, route: TopicRoute) -> list[Queue]:
    """Return a route's readable queues in order."""
    found: list[Queue] = []
    for data in sorted(route.queue_datas, key=lambda data: data.broker_name):
        broker = route.broker(data.broker_name)
        if data.readable and broker is not None and broker.broker_addrs:
            addresses = _read_addresses(broker)
            servers = tuple(one for at in addresses for one in route.filter_server_table.get(at, ()))
            found += [
                Queue(topic, data.broker_name, number, addresses, servers, MASTER_ID in broker.broker_addrs)
                for number in range(data.read_queue_nums)
            ]
    return found


def _is_master(queue: Queue, address: str) -> bool:
    return queue.has_master and address == queue.addresses[0]


def _read_addresses(broker: BrokerData) -> tuple[str, ...]:
    ids = sorted(broker.broker_addrs, key=lambda broker_id: (broker_id != MASTER_ID, broker_id))
    return tuple(broker.broker_addrs[broker_id] for broker_id in ids)
