"""The target of a mirror: which topic a source's topic becomes, and making it when it is missing."""

from __future__ import annotations

import asyncio
import time
import zlib

from pymq.client import Admin, MessageQueue, Producer
from pymq.errors import NotFoundError, RefusedError, UsageError
from pymq.model.names import check_topic
from pymq.model.tables import PERM_READ_WRITE, TopicConfig

PLACE = "{topic}"
ROUTE_WAIT_S = 40.0  # brokers register new topics at once, or with their next report after at most 30 s
ROUTE_RETRY_S = 0.2


def check_rename(template: str) -> None:
    """Raise UsageError for a template without ``{topic}``, which would join all topics, or with illegal characters."""
    if PLACE not in template:
        raise UsageError(f"--rename {template!r} has no {PLACE}: write for example eu_{PLACE}")
    check_topic(template.replace(PLACE, "t"))


async def cluster_name(admin: Admin, given: str | None, option: str, what: str) -> str:
    """Return the given name, or that of the only cluster. Raises UsageError when there are several."""
    known = sorted((await admin.cluster.info()).cluster_addr_table)
    if given is not None:
        if "," in given or not given:
            raise UsageError(f"{option} {given!r}: a name has at least one character and no comma")
        return given
    if len(known) != 1:
        raise UsageError(f"the {what} has the clusters {', '.join(known) or 'none'}: name it with {option}")
    return known[0]


def target_queue(source: MessageQueue, queues: list[MessageQueue]) -> MessageQueue:
    """Return the one queue that gets everything of a source's queue: the same one as long as their number stays."""
    return queues[(zlib.crc32(source.broker_name.encode()) + source.queue_id) % len(queues)]


class Targets:
    """Topics at the target. ``template``: its ``{topic}`` stands for the source's name."""

    def __init__(self, source: Admin, target: Admin, producer: Producer, template: str, *, create: bool) -> None:
        self._source = source
        self._target = target
        self._producer = producer
        self._template = template
        self._create = create
        self._queues: dict[str, list[MessageQueue]] = {}
        self._lock = asyncio.Lock()

    def name(self, topic: str) -> str:
        """Return the topic's name at the target. Raises UsageError when it is too long."""
        return check_topic(self._template.replace(PLACE, topic))

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues that copies of a source's topic go to, after making the topic if it is missing.

        Raises NotFoundError if it is missing and must not be made.
        """
        async with self._lock:
            if topic not in self._queues:
                self._queues[topic] = await self._find(topic)
            return self._queues[topic]

    async def _find(self, topic: str) -> list[MessageQueue]:
        name = self.name(topic)
        try:
            await self._target.topics.route(name)
        except NotFoundError as error:
            if not self._create:
                raise NotFoundError(f"{error}: at the target; leave out --no-create, or create it") from error
            await self._make(topic, name)
        return await self._producer.queues(name)

    async def _make(self, topic: str, name: str) -> None:
        """Make the topic on all masters of the target, with as many queues each as it has at one of the source's."""
        route = await self._source.topics.route(topic)
        count = max((data.write_queue_nums for data in route.queue_datas), default=0) or 1
        config = TopicConfig(topic_name=name, read_queue_nums=count, write_queue_nums=count, perm=PERM_READ_WRITE)
        masters = await self._target.cluster.masters()
        if not masters:
            raise NotFoundError("the target has no master now: start one, or wait for it to register")
        for master in masters:
            await self._target.topics.put(master.address, config)
        end_s = time.monotonic() + ROUTE_WAIT_S
        while True:
            try:
                await self._target.topics.route(name)
                return
            except (NotFoundError, RefusedError):
                if time.monotonic() >= end_s:
                    raise
                await asyncio.sleep(ROUTE_RETRY_S)
