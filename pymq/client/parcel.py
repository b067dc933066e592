"""Parcels: the messages that leave together in one request, each with a future of its own result."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from pymq.client.outgoing import Outgoing, wait_property
from pymq.client.preparing import ID_SIZE_BYTES, with_id
from pymq.model.ids import UniqueIdMaker
from pymq.model.layout import BATCH_ENTRY_HEAD, BATCH_ENTRY_OVERHEAD_BYTES, I16
from pymq.model.message import SendResult

BATCH_BYTES_MAX = 64 * 1024
BATCH_MESSAGES_MAX = 1024


Item = tuple[bytes, bytes, str, int]  # body, properties, message id, as prepared, and flag


class Parcel:
    """Messages of one request. ``is_due``: it waits for no more messages."""

    __slots__ = (
        "deadlines_ms", "ended", "futures", "is_due", "items", "message_ids", "size_bytes", "sys_flag", "timer",
        "topic", "wait_store", "wake_ms",
    )  # fmt: skip

    def __init__(self, topic: str, wait_store: bool, sys_flag: int = 0) -> None:
        self.topic = topic
        self.wait_store = wait_store
        self.sys_flag = sys_flag
        self.items: list[Item] = []
        self.message_ids: list[str] = []  # of all items, once there is a request
        self.futures: list[asyncio.Future[SendResult]] = []
        self.deadlines_ms: list[float] = []  # monotonic
        self.size_bytes = 0
        self.is_due = False
        self.timer: asyncio.TimerHandle | None = None  # ends what is overdue at the monotonic time wake_ms
        self.wake_ms = 0.0
        self.ended: asyncio.Future[None] | None = None  # set by those who wait for its end

    def add(self, item: Item, future: asyncio.Future[SendResult], deadline_ms: float, size_bytes: int) -> None:
        """Add a message that is to be answered by ``deadline_ms``."""
        self.items.append(item)
        self.futures.append(future)
        self.deadlines_ms.append(deadline_ms)
        self.size_bytes += size_bytes

    def outgoing(self, ids: UniqueIdMaker) -> Outgoing:
        """Return the request. A batch has no key of its own: brokers then keep the keys of its messages."""
        items = self.items
        wait = wait_property(self.wait_store)
        new_ids = ids.next_ids(len(items))
        own_ids = self.message_ids = [item[2] or new_id for item, new_id in zip(items, new_ids, strict=True)]
        if len(items) == 1:
            body, properties, known_id, flag = items[0]
            text = (properties if known_id else with_id(properties, own_ids[0])).decode() + wait
            return Outgoing(self.topic, body, text, own_ids[0], flag, self.sys_flag, False)
        pieces: list[bytes] = []
        head = middle = b""
        last: tuple[bytes, int, int] | None = None
        for (body, properties, known_id, flag), message_id in zip(items, own_ids, strict=True):
            if last is None or properties is not last[0] or len(body) != last[1] or flag != last[2]:
                # Else as the message before, like most of them.
                last = (properties, len(body), flag)
                size = len(properties) if known_id else len(properties) + ID_SIZE_BYTES
                head = BATCH_ENTRY_HEAD.pack(BATCH_ENTRY_OVERHEAD_BYTES + len(body) + size, 0, 0, flag, len(body))
                middle = I16.pack(size) + properties
            pieces += (head, body, middle) if known_id else (head, body, middle, message_id.encode(), b"\x02")
        return Outgoing(self.topic, b"".join(pieces), wait, ",".join(own_ids), 0, 0, True)

    def succeed(self, result: SendResult) -> None:
        """Give every message its own result."""
        futures = self.futures
        if len(futures) == 1:
            if not futures[0].done():
                futures[0].set_result(result)
            return
        status, queue, offset = result.status, result.queue, result.queue_offset
        ids = result.offset_message_id.split(",")
        if len(ids) != len(futures):  # stored as one record
            ids *= len(futures)
        for message_id, future, offset_id in zip(self.message_ids, futures, ids, strict=False):
            if not future.done():
                future.set_result(SendResult(status, message_id, offset_id, queue, offset))
            offset += 1

    def singles(self) -> Iterator[Parcel]:
        """Yield each message that has no result yet as a parcel of its own."""
        rows = zip(self.items, self.message_ids, self.futures, self.deadlines_ms, strict=True)
        for (body, properties, known_id, flag), message_id, future, deadline_ms in rows:
            if not future.done():
                item = (body, properties if known_id else with_id(properties, message_id), message_id, flag)
                single = Parcel(self.topic, self.wait_store, self.sys_flag)
                single.add(item, future, deadline_ms, 0)
                yield single

    def fail(self, error: Exception) -> None:
        """Give every message that has no result yet this error."""
        for future in self.futures:
            if not future.done():
                future.set_exception(error)

    def fail_overdue(self, now_ms: float, error: Exception) -> float | None:
        """Give this error to the messages whose time is over. Return the next deadline, None when all are done."""
        next_ms: float | None = None
        for future, deadline_ms in zip(self.futures, self.deadlines_ms, strict=True):
            if future.done():
                continue
            if deadline_ms <= now_ms:
                future.set_exception(error)
            elif next_ms is None or deadline_ms < next_ms:
                next_ms = deadline_ms
        return next_ms
