"""Link: one connection's clients of the cluster. Its coroutines run on the loop of pymq.client's blocking clients.

That loop has a thread of its own, so messages are renewed and fetched while a task computes, and a forked pool process
gets a new one.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

from pymq.client import Admin, Message, Producer, PullConsumer, SimpleConsumer, Tls
from pymq.client.admin.asking import BrokerTarget
from pymq.clock import SystemClock
from pymq.errors import ClosedError, NotFoundError, PymqError, RefusedError, UnreachableError
from pymq.model.tables import SubscriptionGroupConfig, TopicConfig
from pymq.rate_limited_log import RateLimitedLog
from pymq.wire.codes import ResponseCode
from pymq_celery.envelope import eta_ms, now_ms, to_message
from pymq_celery.names import exchange_topic
from pymq_celery.settings import Cluster, Options

log = logging.getLogger(__name__)

ROUTE_WAIT_S = 10.0
_ROUTE_PAUSE_S = 0.05
MISSING_KEPT_S = 1.0
MISSING_COUNT_MAX = 10_000
_BUSY_CODES = (ResponseCode.SYSTEM_ERROR, ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE)
TIMERS_REFUSED_S = 60.0  # so long no timer message is tried after a broker took none


class Link:
    """Producer, consumers and admin client of one kombu connection. All but the constructor runs on the loop."""

    def __init__(self, cluster: Cluster, options: Options, tls: Tls | None) -> None:
        self.cluster = cluster
        self.options = options
        self.group = options.group or cluster.prefix
        self.faults = RateLimitedLog(log, SystemClock(), "brokers that can't be used")
        self._tls = tls
        self._known: set[str] = set()  # topics that exist
        self._missing: dict[str, float] = {}  # topics that did not exist, until when that is believed
        self._no_timers_until_s = 0.0
        self._has_group = False

    async def open(self) -> None:
        """Make the clients. Raises UnreachableError when no name server answers."""
        access: dict[str, Any] = {
            "namesrv": self.cluster.namesrv,
            "credentials": self.cluster.credentials,
            "tls": self._tls,
        }
        self.loop = asyncio.get_running_loop()
        self.producer = Producer(
            self.group,
            body_size_max_bytes=self.options.body_size_max_bytes,
            compress_above_bytes=self.options.compress_above_bytes,
            **access,
        )
        self.consumer = SimpleConsumer(self.group, **access)
        self.puller = PullConsumer(self.group, **access)
        self.admin = Admin(**access)
        try:
            await self.has_topic(exchange_topic(self.cluster.prefix, ""))
            for client in (self.producer, self.consumer, self.puller):
                await client.start()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """End all connections."""
        for client in (self.consumer, self.puller, self.producer):
            await client.stop()
        await self.admin.close()

    # -- topics --------------------------------------------------------------------------------------------------

    async def has_topic(self, topic: str) -> bool:
        """Return True for a topic that exists, as this link learnt within the last seconds."""
        if topic in self._known:
            return True
        if self._missing.get(topic, 0) > time.monotonic():
            return False
        try:
            await self.puller.queues(topic)
        except NotFoundError:
            if len(self._missing) >= MISSING_COUNT_MAX:
                self._missing.clear()
            self._missing[topic] = time.monotonic() + MISSING_KEPT_S
            return False
        self._known.add(topic)
        return True

    async def brokers(self, topic: str) -> list[str]:
        """Ask which brokers have a topic. Raises NotFoundError, UnreachableError, RefusedError."""
        return sorted({queue.broker_name for queue in await self.puller.queues(topic)})

    def forget_topic(self, topic: str) -> None:
        """Ask again whether a topic exists."""
        self._known.discard(topic)
        self._missing.pop(topic, None)

    async def ensure_topic(self, topic: str, queue_count: int) -> None:
        """Make a topic that does not exist on every master, and the group with it."""
        self._missing.pop(topic, None)
        if await self.has_topic(topic):
            return
        config = TopicConfig(topic_name=topic, read_queue_nums=queue_count, write_queue_nums=queue_count)
        targets = await self.admin.cluster.masters()
        for target in targets:
            try:
                await self.admin.topics.put(target.address, config)
            except RefusedError as error:
                raise _explained(error, f"topic {topic} does not exist, and this user may not create it") from error
        log.info("topic %s is made", topic)
        if not self._has_group:
            await self._ensure_group(targets)
        end_s = time.monotonic() + ROUTE_WAIT_S
        while True:
            self._missing.pop(topic, None)
            if await self.has_topic(topic):
                return
            if time.monotonic() > end_s:
                raise NotFoundError(f"topic {topic} was made, but no name server has its route after {ROUTE_WAIT_S} s")
            await asyncio.sleep(_ROUTE_PAUSE_S)

    async def _ensure_group(self, targets: list[BrokerTarget]) -> None:
        made = SubscriptionGroupConfig(group_name=self.group, retry_max_times=self.options.deliveries_max - 1)
        self._has_group = True
        for target in targets:
            try:
                await self.admin.groups.change(target.address, self.group, lambda before: before or made)
            except PymqError as error:
                log.warning(
                    "deliveries_max=%d is not set for group %s on %s: %s",
                    self.options.deliveries_max,
                    self.group,
                    target.name,
                    error,
                )

    async def delete_topic(self, topic: str) -> None:
        """Delete a topic everywhere, if it exists."""
        self.forget_topic(topic)
        try:
            await self.admin.topics.delete(topic, await self.admin.topics.targets(topic), everywhere=True)
        except NotFoundError:
            pass

    async def size(self, topic: str) -> int:
        """Return how many messages of a topic no worker got yet. Raises NotFoundError."""
        places = await self.admin.offsets.places(self.group, topic)
        return sum(
            place.end - (place.first if place.committed is None else place.committed) for place in places.values()
        )

    # -- sends ---------------------------------------------------------------------------------------------------

    async def put(self, topic: str, payload: dict[str, Any]) -> None:
        """Send to a queue's topic: a task with an ETA as a timer message. Makes a topic that was deleted meanwhile."""
        due_ms = eta_ms(payload)
        message = to_message(topic, payload)
        try:
            if due_ms is None or not await self._put_timed(message, due_ms):
                await self._send(message)
        except RefusedError as error:
            self._no_timers_until_s = 0.0  # it is refused without a time, too
            if is_away(error):
                raise UnreachableError(str(error)) from error  # kombu tries again
            raise

    async def put_off(self, topic: str, payload: dict[str, Any], due_ms: int) -> bool:
        """Send a task that came before it is due as a timer message again. False: brokers take none."""
        return await self._put_timed(to_message(topic, payload), due_ms)

    async def _put_timed(self, message: Message, due_ms: int) -> bool:
        """Send at the time, at most ``delay_max_s`` ahead. False: it is due, or brokers take no such message."""
        now = now_ms()
        if due_ms <= now or not self.options.delay_max_s or time.monotonic() < self._no_timers_until_s:
            return False
        message.deliver_at_ms = min(due_ms, now + int(self.options.delay_max_s * 1000))
        try:
            await self._send(message)
        except RefusedError as error:
            if error.code not in (ResponseCode.SYSTEM_ERROR, ResponseCode.MESSAGE_ILLEGAL):
                raise
            log.info("a worker holds a task with an ETA, because a broker took no timer message: %s", error)
            self._no_timers_until_s = time.monotonic() + TIMERS_REFUSED_S
            message.deliver_at_ms = 0
            return False
        return True

    async def _send(self, message: Message) -> None:
        try:
            await self.producer.send(message)
        except PymqError as error:
            if not is_gone(error):
                raise
            self.forget_topic(message.topic)
            await self.ensure_topic(message.topic, self.options.queue_count)
            await self.producer.send(message)

    async def broadcast(self, topic: str, payload: dict[str, Any], tag: str) -> None:
        """Send to an exchange's topic. Without the topic no queue was ever bound to it, and nothing is sent."""
        if not await self.has_topic(topic):
            return
        try:
            await self.producer.send(to_message(topic, payload, tag))
        except PymqError as error:
            if not is_gone(error):
                raise
            self.forget_topic(topic)


def is_away(error: PymqError) -> bool:
    """Return True when brokers can't be reached or say that they can't now: the same request may succeed later."""
    if isinstance(error, RefusedError):
        return error.code in _BUSY_CODES
    return isinstance(error, UnreachableError) and not isinstance(error, ClosedError)


def is_gone(error: PymqError) -> bool:
    """Return True when a topic does not exist, as a name server or a broker says."""
    return isinstance(error, NotFoundError) or (
        isinstance(error, RefusedError) and error.code == ResponseCode.TOPIC_NOT_EXIST
    )


def _explained(error: RefusedError, what: str) -> RefusedError:
    return RefusedError(error.code, f"{what}: {error.remark}", error.address)
