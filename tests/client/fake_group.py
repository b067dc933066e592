"""A scripted broker that serves one consumer group: queues of records in memory, offsets, members, locks."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from typing import Any

from pymq.model import sysflag
from pymq.model.message import MessageQueue
from pymq.model.names import retry_topic
from pymq.wire.bodies_client import ConsumerListAnswer, LockAnswer, LockRequest, QueueName, decode_body, encode_body
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import Command
from pymq.wire.header import decode_header
from pymq.wire.headers.offset import OffsetAnswer, UpdateConsumerOffsetHeader
from pymq.wire.headers.pull import PullMessageAnswer, PullMessageHeader
from pymq.wire.headers.send import SendMessageAnswer
from pymq.wire.reply import Reply
from tests.client.fake_broker import FakeServer, route_reply, serve_routes
from tests.client.messages import record

GROUP = "G"


class FakeGroup:
    """A name server and a broker ``b`` in one: topic T with ``queue_count`` queues, the retry topic with one."""

    def __init__(self, queue_count: int = 1) -> None:
        self.server = FakeServer()
        self.queue_count = queue_count
        self.logs: dict[MessageQueue, list[bytes]] = defaultdict(list)
        self.offsets: dict[MessageQueue, int] = {}
        self.min_offsets: dict[MessageQueue, int] = defaultdict(int)
        self.members: list[str] | None = None  # None: the client that asks
        self.refused_locks: set[MessageQueue] = set()
        self.resets: dict[MessageQueue, int] = {}  # the broker tells the next pull of each
        self.pull_codes: list[int] = []  # codes that answer the next pulls of T
        self.client_id = ""
        self.more = asyncio.Event()

    async def start(self) -> FakeGroup:
        server = await self.server.start()
        brokers = {"b": server.address}
        serve_routes(
            server,
            {"T": route_reply(brokers, queues=self.queue_count), retry_topic(GROUP): route_reply(brokers, queues=1)},
        )
        server.on(RequestCode.HEART_BEAT, self._heartbeat)
        server.on(RequestCode.GET_CONSUMER_LIST_BY_GROUP, self._members)
        server.on(RequestCode.QUERY_CONSUMER_OFFSET, self._query_offset)
        server.on(RequestCode.UPDATE_CONSUMER_OFFSET, self._update_offset)
        server.on(RequestCode.GET_MAX_OFFSET, lambda command: _offset(len(self.logs[_queue(command)])))
        server.on(RequestCode.GET_MIN_OFFSET, lambda command: _offset(self.min_offsets[_queue(command)]))
        server.on(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, lambda command: _offset(int(command.ext["timestamp"])))
        server.on(RequestCode.PULL_MESSAGE, self._pull)
        server.on(RequestCode.LOCK_BATCH_MQ, self._lock)
        server.on(RequestCode.SEND_MESSAGE_V2, _stored)
        return self

    def put(self, body: bytes = b"x", *, topic: str = "T", queue_id: int = 0, **fields: Any) -> MessageQueue:
        """Store one more message and wake parked pulls."""
        queue = MessageQueue(topic, "b", queue_id)
        log = self.logs[queue]
        log.append(record(body, topic=topic, queue_id=queue_id, offset=len(log), **fields))
        self.more.set()
        self.more = asyncio.Event()
        return queue

    def reset(self, queue_id: int, offset: int) -> None:
        """Move the group's offset in one queue of T, as an operator does, and wake parked pulls."""
        self.resets[MessageQueue("T", "b", queue_id)] = offset
        self.more.set()
        self.more = asyncio.Event()

    def _heartbeat(self, command: Command) -> Reply:
        self.client_id = json.loads(command.body)["clientID"]
        return Reply()

    def _members(self, command: Command) -> Reply:
        members = [self.client_id] if self.members is None else self.members
        return Reply(body=encode_body(ConsumerListAnswer(consumer_id_list=members)))

    def _query_offset(self, command: Command) -> Reply:
        offset = self.offsets.get(_queue(command))
        return Reply(ResponseCode.QUERY_NOT_FOUND, "none") if offset is None else _offset(offset)

    def _update_offset(self, command: Command) -> Reply:
        self.offsets[_queue(command)] = decode_header(UpdateConsumerOffsetHeader, command.ext).commit_offset
        return Reply()

    async def _pull(self, command: Command) -> Reply:
        header = decode_header(PullMessageHeader, command.ext)
        queue = _queue(command)
        if self.pull_codes and queue.topic == "T":
            return Reply(self.pull_codes.pop(0), "scripted")
        if header.sys_flag & sysflag.PULL_COMMIT_OFFSET:
            self.offsets[queue] = header.commit_offset
        if header.sys_flag & sysflag.PULL_SUSPEND and header.queue_offset == len(self.logs[queue]):
            await self.more.wait()
        if queue in self.resets:
            return self._answer(ResponseCode.PULL_OFFSET_MOVED, self.resets.pop(queue), queue)
        log = self.logs[queue]
        lowest, highest = self.min_offsets[queue], len(log)
        if not lowest <= header.queue_offset <= highest:
            moved = lowest if header.queue_offset < lowest else highest
            return self._answer(ResponseCode.PULL_OFFSET_MOVED, moved, queue)
        found = log[header.queue_offset : header.queue_offset + header.max_msg_nums]
        if not found:
            return self._answer(ResponseCode.PULL_NOT_FOUND, header.queue_offset, queue)
        return self._answer(ResponseCode.SUCCESS, header.queue_offset + len(found), queue, b"".join(found))

    def _answer(self, code: int, next_offset: int, queue: MessageQueue, body: bytes = b"") -> Reply:
        ext = PullMessageAnswer(
            next_begin_offset=next_offset, min_offset=self.min_offsets[queue], max_offset=len(self.logs[queue])
        )
        return Reply(code, ext=ext, body=body)

    def _lock(self, command: Command) -> Reply:
        asked = {name.to_queue() for name in decode_body(LockRequest, command.body).mq_set}
        given = [QueueName.of(queue) for queue in sorted(asked - self.refused_locks)]
        return Reply(body=encode_body(LockAnswer(lock_ok_mq_set=given)))


def _queue(command: Command) -> MessageQueue:
    return MessageQueue(command.ext["topic"], "b", int(command.ext["queueId"]))


def _offset(offset: int) -> Reply:
    return Reply(ext=OffsetAnswer(offset=offset))


def _stored(command: Command) -> Reply:
    return Reply(ext=SendMessageAnswer(message_id="0" * 32, queue_id=0, queue_offset=0))
