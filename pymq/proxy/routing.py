"""Where clients send to and receive from: QueryRoute and QueryAssignment."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from pymq.model.route import BrokerData, QueueData, TopicRoute
from pymq.proxy.backend import Backend
from pymq.proxy.calls import Call, status_ok
from pymq.proxy.checks import MIXED, TYPE_NAMES, check_group, check_topic
from pymq.proxy.protocol.messages import (
    Assignment,
    MessageQueue,
    QueryAssignmentResponse,
    QueryRouteResponse,
)
from pymq.proxy.protocol.names import Code, MessageType, Permission
from pymq.proxy.refusals import ProxyRefusal

ANY_QUEUE = -1
REPEATED_BYTES_MAX = 2 * 1024 * 1024  # clients read answers of 4 MiB
# What a MIXED topic takes: older clients fail at the number of a type that they do not know.
_OF_MIXED = [number for number in TYPE_NAMES if number not in (MessageType.PRIORITY, MessageType.LITE)]
_TYPES = {name: [number] for number, name in TYPE_NAMES.items()} | {MIXED: _OF_MIXED}
_UNSPECIFIED = [0]


class Routing:
    """Answers with the endpoints that the client asked at: it reaches this server there, whatever lies between."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def query_route(self, call: Call, request: Any) -> Any:
        """Return the queues of a topic."""
        topic = check_topic(request.topic.name)
        route = await self._backend.route(topic)
        types = _TYPES.get(await self._backend.topic_type(topic), _UNSPECIFIED)
        answer = QueryRouteResponse(status=status_ok())
        for broker, data in _brokers(route):
            permissions = queue_permissions(data)
            for broker_id in sorted(broker.broker_addrs):
                _check_size(request, len(answer.message_queues) + len(permissions))
                for queue_id, permission in enumerate(permissions):
                    queue = _queue(request, broker, broker_id, queue_id, permission)
                    queue.accept_message_types.extend(types)
                    answer.message_queues.append(queue)
                await asyncio.sleep(0)  # others have their turn between two brokers
        return answer

    async def query_assignment(self, call: Call, request: Any) -> Any:
        """Return what a push consumer receives from: each member of a group receives from everywhere."""
        topic = check_topic(request.topic.name)
        group = check_group(request.group.name)
        route = await self._backend.route(topic)
        rules = await self._backend.group_rules(group)
        answer = QueryAssignmentResponse(status=status_ok())
        for broker, data in _brokers(route):
            if not data.readable or not broker.broker_addrs:
                continue
            queue_ids = range(data.read_queue_nums) if rules.is_orderly else (ANY_QUEUE,)
            _check_size(request, len(answer.assignments) + len(queue_ids))
            for queue_id in queue_ids:
                queue = _queue(request, broker, min(broker.broker_addrs), queue_id, Permission.READ_WRITE)
                answer.assignments.append(Assignment(message_queue=queue))
        if not answer.assignments:
            raise ProxyRefusal(Code.FORBIDDEN, f"topic {topic} has no readable queue now")
        return answer


def _brokers(route: TopicRoute) -> Iterator[tuple[BrokerData, QueueData]]:
    for data in sorted(route.queue_datas, key=lambda each: each.broker_name):
        broker = route.broker(data.broker_name)
        if broker is not None:
            yield broker, data


def queue_permissions(data: QueueData) -> list[int]:
    """Return the permission of each queue of a topic on a broker; those for one use only come first."""
    read = data.read_queue_nums if data.readable else 0
    write = data.write_queue_nums if data.writable else 0
    both = min(read, write)
    if not read and not write:
        return [Permission.NONE] * max(1, data.read_queue_nums, data.write_queue_nums)
    only_read = [Permission.READ] * (read - both)
    only_write = [Permission.WRITE] * (write - both)
    return [*only_read, *only_write, *[Permission.READ_WRITE] * both]


def _check_size(request: Any, queue_count: int) -> None:
    """Raise ProxyRefusal when each queue of the answer would repeat too much of the request."""
    size_bytes = request.topic.ByteSize() + request.endpoints.ByteSize()
    if queue_count * size_bytes > REPEATED_BYTES_MAX:
        text = f"the topic and endpoints of the request have {size_bytes} bytes, and the answer would repeat them for "
        text += f"{queue_count} queues; the limit is {REPEATED_BYTES_MAX} bytes: name fewer addresses"
        raise ProxyRefusal(Code.BAD_REQUEST, text)


def _queue(request: Any, broker: BrokerData, broker_id: int, queue_id: int, permission: int) -> Any:
    queue = MessageQueue(id=queue_id, permission=permission)
    queue.topic.CopyFrom(request.topic)
    queue.broker.name = broker.broker_name
    queue.broker.id = broker_id
    queue.broker.endpoints.CopyFrom(request.endpoints)
    return queue
