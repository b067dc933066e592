"""Tracer: writes a client's message traces to RocketMQ's trace topic, in the background and never at its cost."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence

from pymq.client.instance import ClientInstance
from pymq.client.outgoing import Outgoing, send_result
from pymq.errors import PymqError
from pymq.model import properties as names
from pymq.model.message import Message, MessageQueue, SendResult
from pymq.model.names import TRACE_TOPIC
from pymq.model.properties import decode_properties, encode_properties
from pymq.model.record import StoredMessage
from pymq.model.trace import (
    COMMIT_MESSAGE,
    DELAY_MESSAGE,
    EXCEPTION,
    FAILED,
    HALF_MESSAGE,
    NORMAL_MESSAGE,
    SUCCESS,
    TraceKind,
    TraceRecord,
    encode_trace,
    trace_keys,
)

log = logging.getLogger(__name__)

FLUSH_INTERVAL_S = 5.0  # Java: AsyncTraceDispatcher
RECORDS_PER_MESSAGE_MAX = 20
BODY_SIZE_MAX_BYTES = 128_000
KEYS_SIZE_MAX_BYTES = 10_240
WAITING_COUNT_MAX = 10_000
SEND_TIMEOUT_S = 5.0
STOP_TIMEOUT_S = 5.0
REGION = "DefaultRegion"


class Tracer:
    """The traces of one client. At most WAITING_COUNT_MAX records wait; more are dropped, counted and logged."""

    def __init__(self, instance: ClientInstance, group: str, purpose: str) -> None:
        """``purpose`` is PRODUCE or CONSUME, part of the producer group of the traces."""
        self._instance = instance
        self._group = group
        self._producer_group = f"_INNER_TRACE_PRODUCER-{group}-{purpose}-0"
        self._waiting: deque[TraceRecord] = deque()
        self._full = asyncio.Event()
        self._writing = asyncio.Lock()
        self.dropped_count = 0

    def start(self) -> None:
        """Start to write in the background."""
        self._instance.spawn(self._run())

    async def stop(self) -> None:
        """Write what waits, for at most STOP_TIMEOUT_S; what can't be written is dropped."""
        try:
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await self._write_all()
        except TimeoutError:
            self.dropped_count += len(self._waiting)
            self._waiting.clear()
        if self.dropped_count:
            log.warning("%d message traces of group %s were dropped", self.dropped_count, self._group)

    # -- what happened -------------------------------------------------------------------------------------------

    def sent(self, outgoing: Outgoing, result: SendResult | None, broker: str, begun_ms: int, cost_ms: int) -> None:
        """Note a send to ``broker`` (an address), which failed if ``result`` is None. A batch has many ids."""
        if outgoing.topic.startswith(TRACE_TOPIC):
            return
        properties = decode_properties(outgoing.properties.encode())
        kind = NORMAL_MESSAGE
        if properties.get(names.DELAY):
            kind = DELAY_MESSAGE
        elif properties.get(names.TRANSACTION_PREPARED) == "true":
            kind = HALF_MESSAGE
        ids = outgoing.message_id.split(",")
        offset_ids = result.offset_message_id.split(",") if result is not None else []
        for at, message_id in enumerate(ids):
            self._note(
                TraceRecord(
                    TraceKind.PUBLISHED,
                    message_id,
                    begun_ms,
                    REGION,
                    self._group,
                    outgoing.topic,
                    properties.get(names.TAGS, ""),
                    properties.get(names.KEYS, ""),
                    broker,
                    len(outgoing.body) // len(ids),
                    cost_ms,
                    kind,
                    offset_ids[at] if at < len(offset_ids) else "",
                    result is not None,
                )
            )

    def transaction_ended(
        self, message: Message | StoredMessage, message_id: str, broker: str, state: str, *, from_check: bool
    ) -> None:
        """Note what the broker was sent about a transaction: ``state`` is RocketMQ's word, as COMMIT_MESSAGE."""
        self._note(
            TraceRecord(
                TraceKind.TRANSACTION_ENDED,
                message_id,
                self._instance.clock.now_ms(),
                REGION,
                self._group,
                message.topic,
                message.tags,
                message.keys,
                broker,
                message_type=COMMIT_MESSAGE,  # as Java's hook does, for every state
                transaction_id=message_id,
                state=state,
                from_check=from_check,
            )
        )

    def recalled(self, topic: str, message_id: str, begun_ms: int, *, succeeded: bool) -> None:
        """Note a recall of a timer message; ``message_id`` is the unique key in its handle."""
        self._note(
            TraceRecord(
                TraceKind.RECALLED,
                message_id,
                begun_ms,
                REGION,
                self._group,
                topic,
                success=succeeded,
            )
        )

    def delivered(self, messages: Sequence[StoredMessage]) -> str:
        """Note that a handler is about to get messages, and return the id of this delivery."""
        request_id = self._instance.ids.next_id()
        now_ms = self._instance.clock.now_ms()
        for message in messages:
            if _is_traced(message):
                self._note(
                    TraceRecord(
                        TraceKind.DELIVERED,
                        message.message_id,
                        now_ms,
                        message.properties[names.MSG_REGION],
                        self._group,
                        keys=message.keys,
                        request_id=request_id,
                        retry_times=message.reconsume_times,
                    )
                )
        return request_id

    def consumed(
        self, request_id: str, messages: Sequence[StoredMessage], cost_ms: int, *, failed: bool, raised: bool
    ) -> None:
        """Note what a handler made of a delivery."""
        now_ms = self._instance.clock.now_ms()
        code = EXCEPTION if raised else FAILED if failed else SUCCESS
        for message in messages:
            if _is_traced(message):
                self._note(
                    TraceRecord(
                        TraceKind.CONSUMED,
                        message.message_id,
                        now_ms,
                        group=self._group,
                        keys=message.keys,
                        cost_ms=cost_ms // len(messages),
                        success=not failed,
                        request_id=request_id,
                        context_code=code,
                    )
                )

    def _note(self, record: TraceRecord) -> None:
        if len(self._waiting) >= WAITING_COUNT_MAX:
            self.dropped_count += 1
            return
        self._waiting.append(record)
        if len(self._waiting) >= RECORDS_PER_MESSAGE_MAX:
            self._full.set()

    # -- writing -------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            try:
                async with asyncio.timeout(FLUSH_INTERVAL_S):
                    await self._full.wait()
            except TimeoutError:
                pass
            self._full.clear()
            await self._write_all()

    async def _write_all(self) -> None:
        async with self._writing:
            while self._waiting:
                records, body = self._next_message()
                try:
                    await self._write(records, body)
                except PymqError as error:
                    self.dropped_count += len(records)
                    log.debug("%d message traces could not be written: %s", len(records), error)

    def _next_message(self) -> tuple[list[TraceRecord], bytes]:
        """Take as many waiting records as fit one message, and return them with its body."""
        records: list[TraceRecord] = []
        parts: list[bytes] = []
        while self._waiting and len(records) < RECORDS_PER_MESSAGE_MAX:
            part = encode_trace(self._waiting[0]).encode("utf-8", "replace")
            keys = " ".join(trace_keys([*records, self._waiting[0]]))
            is_too_much = sum(map(len, parts)) + len(part) > BODY_SIZE_MAX_BYTES or len(keys) > KEYS_SIZE_MAX_BYTES
            if records and is_too_much:
                break
            parts.append(part)
            records.append(self._waiting.popleft())
        return records, b"".join(parts)

    async def _write(self, records: list[TraceRecord], body: bytes) -> None:
        instance = self._instance
        message_id = instance.ids.next_id()
        keys = " ".join(trace_keys(records))
        encoded = encode_properties({names.KEYS: keys, names.UNIQ_KEY: message_id, names.WAIT: "true"}).decode()
        outgoing = Outgoing(TRACE_TOPIC, body, encoded, message_id, 0, 0, False)
        queues = await instance.routes.queues_to_write(TRACE_TOPIC, SEND_TIMEOUT_S)
        queue: MessageQueue = instance.rng.choice(queues)
        address = await instance.routes.write_address(queue, SEND_TIMEOUT_S)
        command = outgoing.command(self._producer_group, queue, instance.clock.now_ms())
        send_result(await instance.remoting.invoke(address, command, SEND_TIMEOUT_S), message_id, queue, address)


def _is_traced(message: StoredMessage) -> bool:
    properties = message.properties
    return bool(properties.get(names.MSG_REGION)) and properties.get(names.TRACE_ON) != "false"
