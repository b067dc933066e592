"""Serves the requests of brokers to a push consumer: membership changes, offset resets, status, direct consumption."""

from __future__ import annotations

import logging
from collections.abc import Awaitable

from pymq import __version__
from pymq.client.consume_result import ConsumeResult
from pymq.client.consumer_settings import ConsumerState
from pymq.client.handler import MessageHandler
from pymq.client.heartbeat import subscription_data
from pymq.client.process_queue import ProcessQueue
from pymq.client.rebalancer import Rebalancer
from pymq.client.stacks import stacks_text
from pymq.errors import PymqError
from pymq.model.message import MessageQueue
from pymq.model.names import retry_topic
from pymq.model.properties import RETRY_TOPIC
from pymq.model.record import decode_record
from pymq.wire.bodies_admin import (
    ClientConsumerStatus,
    ConsumeDirectlyResult,
    ConsumerRunningInfo,
    QueueOffsetList,
    QueueOffsets,
    decode_admin_body,
    encode_admin_body,
)
from pymq.wire.bodies_consumer import ConsumeStatus, ProcessQueueInfo, running_properties, to_fields
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import Command
from pymq.wire.header import decode_header
from pymq.wire.headers.admin import (
    ConsumeDirectlyHeader,
    ConsumerRunningInfoHeader,
    ConsumerStatusHeader,
    ResetClientOffsetHeader,
)
from pymq.wire.headers.client import ConsumerGroupHeader
from pymq.wire.reply import Reply

log = logging.getLogger(__name__)

RESET_WAIT_S = 10.0


class GroupRequests:
    """Answers brokers for one consumer; :meth:`handle` is the connection's ``on_request``."""

    def __init__(self, state: ConsumerState, handler: MessageHandler, rebalancer: Rebalancer) -> None:
        self._state = state
        self._handler = handler
        self._rebalancer = rebalancer
        self._clock = state.instance.clock
        self._started_ms = self._clock.now_ms()
        self._started_monotonic_ms = self._clock.monotonic_ms()

    def handle(self, command: Command, address: str) -> Reply | Awaitable[Reply | None] | None:
        """Return the answer to a broker's request. Raises PymqError, which becomes an answer with code 1."""
        if command.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED:
            self._members_changed(command)
            return None
        if command.code == RequestCode.RESET_CONSUMER_CLIENT_OFFSET:
            return self._reset(command)
        if command.code == RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT:
            return self._status(command)
        if command.code == RequestCode.GET_CONSUMER_RUNNING_INFO:
            header = decode_header(ConsumerRunningInfoHeader, command.ext)
            return Reply(body=encode_admin_body(self.running_info(with_stacks=header.jstack_enable)))
        if command.code == RequestCode.CONSUME_MESSAGE_DIRECTLY:
            return self._consume(command)
        log.info("%s sent request code %d, which a consumer doesn't serve", address, command.code)
        return Reply(
            ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f" request type {command.code} not supported by this consumer"
        )

    def _members_changed(self, command: Command) -> None:
        if decode_header(ConsumerGroupHeader, command.ext).consumer_group == self._state.group:
            self._rebalancer.wake()

    async def _reset(self, command: Command) -> None:
        header = decode_header(ResetClientOffsetHeader, command.ext)
        if header.group != self._state.group:
            return
        offsets = _offset_table(command.body)
        log.info("an operator resets the offsets of %s: %s", header.topic, offsets)
        for queue, offset in offsets.items():
            if queue.topic == header.topic:
                await self._rebalancer.restart(queue, offset, RESET_WAIT_S)

    def _status(self, command: Command) -> Reply:
        header = decode_header(ConsumerStatusHeader, command.ext)
        table = {
            queue: process_queue.commit_offset()
            for queue, process_queue in self._state.queues.items()
            if queue.topic == header.topic
        }
        return Reply(body=encode_admin_body(ClientConsumerStatus(message_queue_table=table)))

    def running_info(self, *, with_stacks: bool = False) -> ConsumerRunningInfo:
        """Return this consumer's subscriptions, queues and rates as operators see them.

        ``with_stacks``: also what the process's threads and tasks do now.
        """
        settings = self._state.settings
        return ConsumerRunningInfo(
            properties=self._filter_figures()
            | running_properties(
                namesrv=";".join(self._state.instance.name_servers.addresses),
                orderly=settings.orderly,
                thread_count=settings.concurrency_max,
                started_ms=self._started_ms,
                version=f"PyMQ {__version__}",
            ),
            subscription_set=[subscription_data(one) for one in self._state.subscriptions.values()],
            mq_table={queue: to_fields(self._queue_info(one)) for queue, one in self._state.queues.items()},
            status_table={topic: self._topic_status(topic) for topic in self._state.subscriptions},
            jstack=stacks_text() if with_stacks else None,
        )

    def _filter_figures(self) -> dict[str, str]:
        """Return the figures of the filters that run in this client, by topic."""
        return {
            f"filter.{topic}": one.local.figures()
            for topic, one in self._state.subscriptions.items()
            if one.local is not None
        }

    def _queue_info(self, one: ProcessQueue) -> ProcessQueueInfo:
        return ProcessQueueInfo(
            commit_offset=one.commit_offset(),
            cached_msg_min_offset=one.first_offset(),
            cached_msg_max_offset=one.last_offset(),
            cached_msg_count=one.count,
            cached_msg_size_in_mi_b=one.size_bytes >> 20,
            locked=self._clock.monotonic_ms() < one.locked_until_ms,
            last_lock_timestamp=one.last_lock_ms,
            droped=one.dropped,
            last_pull_timestamp=one.last_pull_ms,
            last_consume_timestamp=self._unix_ms(one.last_call_ms),
        )

    def _unix_ms(self, monotonic_ms: int) -> int:
        return monotonic_ms and self._clock.now_ms() - (self._clock.monotonic_ms() - monotonic_ms)

    def _topic_status(self, topic: str) -> dict[str, float]:
        counts = self._state.counters.topics[topic]
        seconds = max(self._clock.monotonic_ms() - self._started_monotonic_ms, 1) / 1000
        calls = counts.handled + counts.failed
        status = ConsumeStatus(
            pull_rt=counts.pull_ms / max(counts.pulls, 1),
            pull_tps=counts.pulled / seconds,
            consume_rt=counts.handle_ms / max(calls, 1),
            consume_ok_tps=counts.handled / seconds,
            consume_failed_tps=counts.failed / seconds,
            consume_failed_msgs=counts.failed,
        )
        return to_fields(status)  # type: ignore[return-value]

    async def _consume(self, command: Command) -> Reply:
        """Handle one message that an operator picked; the result moves no offset."""
        header = decode_header(ConsumeDirectlyHeader, command.ext)
        message = decode_record(command.body)
        message.broker_name = header.broker_name or ""
        if message.topic == retry_topic(self._state.group):
            message.topic = message.properties.get(RETRY_TOPIC, message.topic)
        started_ms = self._clock.monotonic_ms()
        result = ConsumeDirectlyResult(order=self._state.settings.orderly)
        try:
            verdict = await self._handler.call_unguarded([message])
            result.consume_result = "CR_SUCCESS" if verdict is ConsumeResult.SUCCESS else "CR_LATER"
        except (Exception, SystemExit) as error:
            log.exception("the message handler failed on %s", message.message_id)
            result.consume_result = "CR_THROW_EXCEPTION"
            result.remark = f"{type(error).__name__}: {error}"
        result.spent_time_mills = self._clock.monotonic_ms() - started_ms
        return Reply(body=encode_admin_body(result))


def _offset_table(body: bytes) -> dict[MessageQueue, int]:
    """Decode the offsets of a reset request, from the map that Java and Go read or from C++'s list."""
    try:
        return decode_admin_body(QueueOffsets, body).offset_table
    except PymqError:
        entries = decode_admin_body(QueueOffsetList, body).offset_table
    return {MessageQueue(one.topic, one.broker_name, one.queue_id): one.offset for one in entries}
