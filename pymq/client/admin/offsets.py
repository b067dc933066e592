"""Admin calls about a group's places: where it is in each queue, what an offset or a time means, and moves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pymq.client.admin.asking import by_key
from pymq.client.admin.connection import AdminConnection
from pymq.client.admin.groups import GroupAdmin
from pymq.client.admin.topics import TopicAdmin
from pymq.client.answers import read_answer
from pymq.errors import NotFoundError, RefusedError, UnreachableError
from pymq.model.message import MessageQueue
from pymq.model.tables import SubscriptionGroupConfig
from pymq.wire.bodies_admin import QueueOffsets, decode_admin_body
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.headers.admin import ResetOffsetHeader
from pymq.wire.headers.offset import (
    OffsetAnswer,
    QueryConsumerOffsetHeader,
    SearchOffsetHeader,
    UpdateConsumerOffsetHeader,
)

_NONE_COMMITTED = frozenset({ResponseCode.QUERY_NOT_FOUND})


class Place(NamedTuple):
    """A queue's first and next offset, and the group's committed offset, None when it has none."""

    first: int
    end: int
    committed: int | None


class OffsetAdmin:
    """Calls about the places of consumer groups in queues."""

    def __init__(self, connection: AdminConnection, topics: TopicAdmin, groups: GroupAdmin) -> None:
        self._connection = connection
        self._topics = topics
        self._groups = groups

    async def places(self, group: str, topic: str) -> dict[MessageQueue, Place]:
        """Return the group's place in every queue of the topic, sorted; the group need not exist.

        Raises NotFoundError (no topic).
        """
        addresses = await self._addresses(topic)
        stats = {queue: at for queue, at in (await self._topics.stats(topic)).items() if queue.broker_name in addresses}
        committed = await self.committed(group, addresses, list(stats))
        return {queue: Place(at.min_offset, at.max_offset, committed[queue]) for queue, at in stats.items()}

    async def committed(
        self, group: str, addresses: Mapping[str, str], queues: Sequence[MessageQueue]
    ) -> dict[MessageQueue, int | None]:
        """Return the group's offset in each queue, None where it has none. ``addresses``: by broker name."""
        return await by_key(queues, lambda queue: self._committed(addresses[queue.broker_name], group, queue))

    async def at_time(self, queues: Sequence[MessageQueue], timestamp_ms: int) -> dict[MessageQueue, int]:
        """Return, for queues of one topic, the first offset stored at ``timestamp_ms`` (Unix ms) or later."""
        if not queues:
            return {}
        addresses = await self._addresses(queues[0].topic)

        async def offset(queue: MessageQueue) -> int:
            address = addresses[queue.broker_name]
            header = SearchOffsetHeader(topic=queue.topic, queue_id=queue.queue_id, timestamp=timestamp_ms)
            answer = await self._connection.ask_broker(address, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header)
            return read_answer(OffsetAnswer, answer, address).offset

        return await by_key(queues, offset)

    async def missing_on(self, group: str, topic: str) -> list[str]:
        """Return the names of the topic's brokers that don't have the group."""
        addresses = await self._addresses(topic)
        return [name for name, address in addresses.items() if await self._groups.config(address, group) is None]

    async def move(self, group: str, offsets: dict[MessageQueue, int]) -> dict[MessageQueue, str]:
        """Move the group to the given offsets, in queues of one topic, and return queue -> why it was not moved.

        Brokers that don't have the group create it. Members of the group go on at the new offsets.
        """
        if not offsets:
            return {}
        topic = next(iter(offsets)).topic
        addresses = await self._addresses(topic)
        for name in await self.missing_on(group, topic):
            if any(queue.broker_name == name for queue in offsets):
                await self._groups.put(addresses[name], SubscriptionGroupConfig(group_name=group))
        problems = await by_key(
            offsets, lambda queue: self._move(addresses[queue.broker_name], group, queue, offsets[queue])
        )
        return {queue: problem for queue, problem in problems.items() if problem is not None}

    async def _move(self, address: str, group: str, queue: MessageQueue, offset: int) -> str | None:
        header = ResetOffsetHeader(
            topic=queue.topic, group=group, timestamp=0, is_force=True, queue_id=queue.queue_id, offset=offset
        )
        try:
            answer = await self._connection.ask_broker(address, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header)
        except RefusedError as error:
            if error.code != ResponseCode.CONSUMER_NOT_ONLINE:
                return str(error)
            # With useServerSideResetOffset=false only members of the group take resets. There are none: commit instead.
            return await self._commit(address, group, queue, offset)
        except UnreachableError as error:
            return str(error)
        done = decode_admin_body(QueueOffsets, answer.body).offset_table if answer.body else {}
        moved_to = next((at for at_queue, at in done.items() if at_queue.queue_id == queue.queue_id), None)
        if moved_to == offset:
            return None
        return (
            f"the broker moved the group to {moved_to} instead of {offset}: with useServerSideResetOffset=false it "
            "knows only times; set it to true, or stop the group's members first"
        )

    async def _commit(self, address: str, group: str, queue: MessageQueue, offset: int) -> str | None:
        header = UpdateConsumerOffsetHeader(
            consumer_group=group, topic=queue.topic, queue_id=queue.queue_id, commit_offset=offset
        )
        try:
            await self._connection.ask_broker(address, RequestCode.UPDATE_CONSUMER_OFFSET, header)
        except RefusedError as error:
            return str(error)
        return None

    async def _committed(self, address: str, group: str, queue: MessageQueue) -> int | None:
        header = QueryConsumerOffsetHeader(
            consumer_group=group, topic=queue.topic, queue_id=queue.queue_id, set_zero_if_not_found=False
        )
        code = RequestCode.QUERY_CONSUMER_OFFSET
        answer = await self._connection.ask_or_none(address, code, header, _NONE_COMMITTED)
        return None if answer is None else read_answer(OffsetAnswer, answer, address).offset

    async def _addresses(self, topic: str) -> dict[str, str]:
        targets = await self._topics.targets(topic)
        if not targets:
            raise NotFoundError(f"topic {topic!r} has no broker with a master now")
        return {target.name: target.address for target in targets}
