"""Dead letters: finds them, sends them again, deletes them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from pymq.client import Producer, PullConsumer, PullStatus, SendResult
from pymq.client.admin import Admin
from pymq.client.admin.asking import for_each
from pymq.errors import NotFoundError, PymqError, RefusedError
from pymq.model import pop
from pymq.model import properties as names
from pymq.model.lite_groups import BIND_TOPIC
from pymq.model.names import DLQ_PREFIX, check_group, dlq_topic, retry_topic
from pymq.model.record import StoredMessage
from pymq.operations.sums import held_messages
from pymq.security.credentials import Credentials

CLIENT_GROUP = "PYMQ_DLQ"  # commits nothing
IN_FLIGHT = 16
FAILURES_SHOWN_MAX = 5
TIME_MAX_MS = 2**63 - 1

# What brokers added on the way to the dead letters, or what would send the message elsewhere again.
NOT_SENT_AGAIN = frozenset(
    {
        names.DLQ_ORIGIN_TOPIC,
        names.DLQ_ORIGIN_MESSAGE_ID,
        names.DELAY,
        names.REAL_TOPIC,
        names.REAL_QUEUE_ID,
        names.RECONSUME_TIME,
        names.MAX_RECONSUME_TIMES,
        names.TRANSACTION_PREPARED,
        names.MSG_REGION,
        names.TRACE_ON,
        names.CLUSTER,
        names.POP_CK,
        "1ST_POP_TIME",
        names.WAIT,
    }
)
_OF_RETRIES = frozenset({names.RETRY_TOPIC, names.ORIGIN_MESSAGE_ID})


@dataclass(frozen=True)
class Wanted:
    """Which dead letters of a group are meant; without conditions all. Times are store times in Unix ms."""

    group: str
    ids: frozenset[str] = frozenset()
    origin: str | None = None
    begin_ms: int = 0
    end_ms: int = TIME_MAX_MS
    count_max: int | None = None

    def __post_init__(self) -> None:
        check_group(self.group)

    def takes(self, message: StoredMessage) -> bool:
        return (
            (
                not self.ids
                or not self.ids.isdisjoint({message.message_id, message.offset_message_id, *_origins(message)})
            )
            and (self.origin is None or origin_topic(message) == self.origin)
            and self.begin_ms <= message.store_timestamp_ms < self.end_ms
        )


@dataclass
class Resent:
    """What became of the dead letters that were sent again."""

    sent: int = 0
    failures: list[str] = field(default_factory=list)
    failed: int = 0
    topics: Counter[str] = field(default_factory=Counter)  # by the topic they first came from

    def record(self, group: str, *, to_topic: bool, applied: bool) -> dict[str, Any]:
        """Return the counts as plain values, with where the dead letters went."""
        return {
            "group": group,
            "to": "topic" if to_topic else "group",
            "found": self.topics.total(),
            "origins": dict(self.topics),
            "applied": applied,
            "sent": self.sent,
            "failed": self.failed,
            "failures": self.failures,
        }


def origin_topic(message: StoredMessage) -> str:
    """Return the topic that the message was first sent to, as far as its properties tell; else empty."""
    properties = message.properties
    return properties.get(names.DLQ_ORIGIN_TOPIC) or properties.get(names.RETRY_TOPIC) or ""


def origin_id(message: StoredMessage) -> str:
    """Return the id that the message had in the topic it was first sent to, as far as its properties tell."""
    properties = message.properties
    return properties.get(names.DLQ_ORIGIN_MESSAGE_ID) or properties.get(names.ORIGIN_MESSAGE_ID) or ""


def _origins(message: StoredMessage) -> tuple[str, ...]:
    found = origin_id(message)
    return (found,) if found else ()


async def list_groups(admin: Admin) -> list[dict[str, Any]]:
    """Return a record per group with a topic of dead letters, the fullest first."""

    async def record(topic: str) -> dict[str, Any] | None:
        try:
            queues = await admin.topics.stats(topic)
        except NotFoundError:
            return None  # deleted since it was listed
        return {
            "group": topic.removeprefix(DLQ_PREFIX),
            "messages": held_messages(queues.values()),
            "brokers": sorted({queue.broker_name for queue in queues}),
            "last_stored_ms": max((at.last_update_timestamp for at in queues.values()), default=0) or None,
        }

    topics = [topic for topic in await admin.topics.names() if topic.startswith(DLQ_PREFIX)]
    records = [one for one in await for_each(topics, record) if one is not None]
    return sorted(records, key=lambda one: (-one["messages"], one["group"]))


async def dead_letters(namesrv: str, wanted: Wanted, credentials: Credentials | None) -> AsyncIterator[StoredMessage]:
    """Yield the dead letters that are stored now, queue by queue, oldest first. Raises NotFoundError."""
    count = 0
    async with PullConsumer(CLIENT_GROUP, namesrv=namesrv, credentials=credentials) as pull:
        try:
            queues = await pull.queues(dlq_topic(wanted.group))
        except NotFoundError as error:
            raise NotFoundError(
                f"group {wanted.group!r} has no dead letters: its topic {dlq_topic(wanted.group)} does not exist"
            ) from error
        for queue in queues:
            offset, end = await pull.min_offset(queue), await pull.max_offset(queue)
            while offset < end:
                result = await pull.pull(queue, offset)
                if result.status is PullStatus.NO_NEW_MESSAGE:
                    break
                for message in result.messages():
                    if message.queue_offset >= end or count == wanted.count_max:
                        break
                    if wanted.takes(message):
                        count += 1
                        yield message
                if count == wanted.count_max:
                    return
                offset = max(result.next_offset, offset + 1) if result.raw else result.next_offset


async def resend(
    namesrv: str, wanted: Wanted, credentials: Credentials | None, *, to_topic: bool, apply: bool
) -> Resent:
    """Send dead letters to the group's retry topics, or with ``to_topic`` to the topics they came from.

    Without ``apply`` it only counts. Stops at nothing: failures are counted. The dead letters stay where they are.
    """
    done = Resent()
    async with Admin(namesrv, credentials=credentials) as admin:
        goals = await find_goals(admin, wanted.group, to_topic=to_topic)
    async with Producer(CLIENT_GROUP, namesrv=namesrv, credentials=credentials) as producer:
        batch: list[StoredMessage] = []
        async for message in dead_letters(namesrv, wanted, credentials):
            done.topics[origin_topic(message) or "?"] += 1
            batch.append(message)
            if len(batch) == IN_FLIGHT:
                await _resend(producer, batch, goals, done, apply=apply)
                batch = []
        await _resend(producer, batch, goals, done, apply=apply)
    return done


@dataclass(frozen=True, slots=True)
class Goals:
    """Where dead letters of a group go: to the group's retry topics, or to the topics that they came from.

    ``retry_topics``: those that a cluster may have for the group. Members that pop read one for each topic, and those
    of lite topics (``reads_lites``) none.
    """

    group: str
    to_topic: bool
    retry_topics: frozenset[str] = frozenset()
    reads_lites: bool = False

    def of(self, message: StoredMessage) -> str:
        """Return the topic that a dead letter goes to.

        Raises RefusedError when no property says where it came from, and for a retry topic that can't be sent to.
        """
        origin = origin_topic(message)
        if not origin:
            raise RefusedError(0, "no property says which topic it came from")
        if self.to_topic:
            return origin
        if self.reads_lites:
            raise RefusedError(
                0, "the group reads lite topics, which have no retry topic: send it to its topic instead"
            )
        popped = pop.retry_topic_v2(self.group, origin)
        if popped in self.retry_topics:
            return popped
        if pop.retry_topic_v1(self.group, origin) in self.retry_topics:
            raise RefusedError(
                0,
                f"the group pops {origin} with the retry topic {pop.retry_topic_v1(self.group, origin)}, which may be "
                "another group's: send it to its topic instead",
            )
        return retry_topic(self.group)


async def find_goals(admin: Admin, group: str, *, to_topic: bool) -> Goals:
    """Return where dead letters of a group go now."""
    if to_topic:
        return Goals(group, to_topic)
    own = retry_topic(group)
    configs = await admin.groups.all_configs()
    found = {name for name in await admin.topics.names() if name.startswith(own) and name != own}
    found -= {retry_topic(name) for name in configs}
    reads_lites = any(BIND_TOPIC in config.attributes for config in configs.get(group, {}).values())
    return Goals(group, to_topic, frozenset(found), reads_lites)


async def resend_one(producer: Producer, message: StoredMessage, goals: Goals) -> SendResult:
    """Send one dead letter again, with its message id and without what brokers added on its way. Raises PymqError."""
    goal = goals.of(message)
    left_out = NOT_SENT_AGAIN | (_OF_RETRIES if goals.to_topic else set())
    properties = {name: value for name, value in message.properties.items() if name not in left_out}
    if not goals.to_topic:
        properties[names.RETRY_TOPIC] = origin_topic(message)
    return await producer.send_copy(message, goal, properties)


async def _resend(producer: Producer, batch: list[StoredMessage], goals: Goals, done: Resent, *, apply: bool) -> None:
    async def one(message: StoredMessage) -> None:
        try:
            goals.of(message)
            if not apply:
                return
            await resend_one(producer, message, goals)
            done.sent += 1
        except PymqError as error:
            done.failed += 1
            if len(done.failures) < FAILURES_SHOWN_MAX:
                done.failures.append(f"{message.message_id}: {error}")

    await asyncio.gather(*map(one, batch))


async def plan_purge(admin: Admin, group: str) -> dict[str, Any]:
    """Return what a purge deletes. Raises NotFoundError when the group has no topic of dead letters."""
    topic = dlq_topic(check_group(group))
    stats = await admin.topics.stats(topic)
    return {
        "group": group,
        "topic": topic,
        "brokers": sorted({queue.broker_name for queue in stats}),
        "messages": held_messages(stats.values()),
        "applied": False,
    }


async def purge(admin: Admin, group: str) -> dict[str, Any]:
    """Delete the group's topic of dead letters on all brokers and name servers, and read back what is left."""
    record = await plan_purge(admin, group)
    targets = await admin.topics.targets(record["topic"])
    await admin.topics.delete(record["topic"], targets, everywhere=True)
    try:
        left = await admin.topics.stats(record["topic"], targets)
    except NotFoundError:
        left = {}
    return record | {"applied": True, "left": held_messages(left.values())}
