"""A topic without a broker: stored messages in lists, and what pages ask about them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Any

from pymq.client import MessageQueue, PullStatus, StoredMessage
from pymq.client.subscription_options import SubscriptionOptions
from pymq.clock import ManualClock
from pymq.console.asking.cluster import Cluster
from pymq.console.pages.page import Visit
from pymq.console.pages.rendering import make_environment
from pymq.console.web.parameters import Parameters
from pymq.errors import NotFoundError, PymqError
from pymq.model.hosts import pack_host
from pymq.model.message import PullResult
from pymq.model.properties import encode_properties
from pymq.model.record import body_crc, encode_message
from pymq.wire.bodies_admin import TopicOffset
from tests.console.golden import RENDERED

BEGUN_MS = 1_700_000_000_000
HOST = pack_host("10.0.0.1", 10911)


def stored(
    offset: int,
    body: bytes = b"hello",
    *,
    topic: str = "orders",
    queue: MessageQueue | None = None,
    time_ms: int | None = None,
    sys_flag: int = 0,
    **properties: str,
) -> StoredMessage:
    """Return a message at an offset; without a time one second after the one before it."""
    queue = queue or MessageQueue(topic, "broker-a", 0)
    return StoredMessage(
        topic=queue.topic,
        queue_id=queue.queue_id,
        queue_offset=offset,
        physical_offset=offset * 1000,
        size_bytes=len(body) + 200,
        body=body,
        raw_properties=encode_properties(properties),
        flag=0,
        sys_flag=sys_flag,
        body_crc=body_crc(body),
        born_timestamp_ms=BEGUN_MS,
        born_host=HOST,
        store_timestamp_ms=BEGUN_MS + offset * 1000 if time_ms is None else time_ms,
        store_host=HOST,
        reconsume_times=0,
        prepared_transaction_offset=0,
        broker_name=queue.broker_name,
    )


class FakeTopic:
    """Queues with messages, ``first`` offsets, and brokers that fail."""

    def __init__(self, *messages: StoredMessage) -> None:
        self.queues: dict[MessageQueue, list[StoredMessage]] = {}
        self.failing: dict[str, PymqError] = {}
        self.pulls: list[tuple[MessageQueue, int, int]] = []
        self.groups: list[str] | PymqError = []
        self.lags: dict[str, Any] = {}
        for message in messages:
            self.add(message)

    def add(self, message: StoredMessage) -> None:
        queue = MessageQueue(message.topic, message.broker_name, message.queue_id)
        self.queues.setdefault(queue, []).append(message)

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def pull_as(
        self, queue: MessageQueue, offset: int, options: SubscriptionOptions, *, count_max: int, bytes_max: int
    ) -> PullResult:
        self.pulls.append((queue, offset, count_max))
        if queue.broker_name in self.failing:
            raise self.failing[queue.broker_name]
        there = self.queues.get(queue, [])
        first = there[0].queue_offset if there else 0
        end = there[-1].queue_offset + 1 if there else 0
        if offset < first:
            return PullResult(PullStatus.OFFSET_ILLEGAL, first, first, end, b"", 0, queue.broker_name)
        found = [one for one in there if one.queue_offset >= offset][:count_max]
        if not found:
            return PullResult(PullStatus.NO_NEW_MESSAGE, offset, first, end, b"", 0, queue.broker_name)
        following = found[-1].queue_offset + 1
        if options.expression != "*":
            found = [one for one in found if one.tags == options.expression]
        raw = b"".join(map(encode_message, found))
        status = PullStatus.FOUND if found else PullStatus.NO_MATCHED_MESSAGE
        return PullResult(status, following, first, end, raw, 0, queue.broker_name)

    # As the admin client's parts.

    async def stats(self, topic: str) -> dict[MessageQueue, TopicOffset]:
        found = {
            queue: TopicOffset(
                min_offset=there[0].queue_offset,
                max_offset=there[-1].queue_offset + 1,
                last_update_timestamp=there[-1].store_timestamp_ms,
            )
            for queue, there in sorted(self.queues.items())
            if queue.topic == topic
        }
        if not found:
            raise NotFoundError(f"no topic {topic!r}")
        return found

    async def at_time(self, queues: list[MessageQueue], time_ms: int) -> dict[MessageQueue, int]:
        return {
            queue: next(
                (one.queue_offset for one in self.queues[queue] if one.store_timestamp_ms >= time_ms),
                self.queues[queue][-1].queue_offset + 1,
            )
            for queue in queues
        }

    async def readers(self, topic: str) -> list[str]:
        if isinstance(self.groups, PymqError):
            raise self.groups
        return self.groups

    async def lag(self, group: str, topic: str) -> Any:
        if isinstance(self.lags[group], PymqError):
            raise self.lags[group]
        return self.lags[group]

    async def by_key(self, topic: str, key: str, *, count_max: int) -> list[StoredMessage]:
        return [
            one
            for queue, there in sorted(self.queues.items())
            for one in there
            if queue.topic == topic and (key in one.keys.split() or one.message_id == key)
        ][:count_max]

    async def by_unique_key(self, topic: str, key: str) -> list[StoredMessage]:
        return [one for one in await self.by_key(topic, key, count_max=99) if one.message_id == key]

    async def info(self) -> dict[str, Any]:
        return {}

    async def masters(self) -> list[Any]:
        return []

    def admin(self) -> Any:
        return FakeAdmin(self)


class FakeAdmin(SimpleNamespace):
    """The parts of an admin client that message pages ask."""

    def __init__(self, topic: FakeTopic) -> None:
        super().__init__(
            unreached={},
            topics=SimpleNamespace(stats=topic.stats, groups=topic.readers),
            offsets=SimpleNamespace(at_time=topic.at_time),
            groups=SimpleNamespace(lag=topic.lag),
            messages=SimpleNamespace(by_key=topic.by_key, by_unique_key=topic.by_unique_key),
            cluster=SimpleNamespace(info=topic.info, masters=topic.masters),
        )

    async def __aenter__(self) -> FakeAdmin:
        return self

    async def close(self) -> None: ...


def visit(
    there: FakeTopic, path: dict[str, str] | None = None, /, *, shows_bodies: bool = True, **fields: str
) -> Visit:
    """Return a visit of a page about a topic; ``from_`` is the parameter ``from``."""
    clock = ManualClock()
    make_consumer: Callable[[], Any] = lambda: there  # noqa: E731 - the fake is its own consumer
    cluster = Cluster(there.admin(), clock, make_consumer)
    parameters = Parameters((name.rstrip("_"), value) for name, value in fields.items())
    return Visit(cluster, parameters, path or {}, clock, shows_bodies)


environment = cache(make_environment)


def html(page: Any, visited: Visit) -> str:
    """Return the HTML of a page."""
    around = {
        "page": page,
        "context": "prod",
        "contexts": ["prod"],
        "session": None,
        "section": "messages",
        "navigation": (),
        "now_ms": visited.clock.now_ms(),
        "as_of_ms": visited.clock.now_ms(),
        "is_renewed": False,
        "kept": visited.parameters.without_list,
        "allow_changes": False,
        "static": lambda name: f"/static/{name}",
        "at": lambda path: f"/at/prod/{path}",
        "query": lambda **changes: "&".join(f"{name}={value}" for name, value in changes.items()),
    }
    text = environment().get_template(page.template).render(**page.shown, **around)
    RENDERED.append(text)
    return text
