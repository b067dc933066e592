"""Parcels: the messages that leave together in one request, each with a future of its own result."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import NamedTuple

from pymq.client.outgoing import Outgoing, wait_property
from pymq.model.layout import BATCH_ENTRY_HEAD, BATCH_ENTRY_OVERHEAD_BYTES, I16
from pymq.model.message import SendResult

BATCH_BYTES_MAX = 64 * 1024
BATCH_MESSAGES_MAX = 1024


class Item(NamedTuple):
    """A message that is ready to be sent. ``properties`` are encoded, without WAIT."""

    topic: str
    body: bytes
    properties: bytes
    message_id: str
    flag: int
    sys_flag: int
    wait_store: bool
    is_alone: bool  # must not be in a batch
    size_bytes: int

    def outgoing(self) -> Outgoing:
        """Return it as a request of its own."""
        text = self.properties.decode() + wait_property(self.wait_store)
        return Outgoing(self.topic, self.body, text, self.message_id, self.flag, self.sys_flag, False)


class Parcel:
    """Messages of one request. ``is_due``: it waits for no more messages."""

    __slots__ = ("deadlines_ms", "ended", "futures", "is_due", "items", "size_bytes", "timer", "wake_ms")

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.futures: list[asyncio.Future[SendResult]] = []
        self.deadlines_ms: list[float] = []  # monotonic
        self.size_bytes = 0
        self.is_due = False
        self.timer: asyncio.TimerHandle | None = None  # ends what is overdue at the monotonic time wake_ms
        self.wake_ms = 0.0
        self.ended: asyncio.Future[None] | None = None  # set by those who wait for its end

    def takes(self, item: Item, count_max: int, bytes_max: int) -> bool:
        """Return whether ``item`` may join the messages in here."""
        first = self.items[0]
        return not (
            self.is_due
            or item.is_alone
            or len(self.items) >= count_max
            or self.size_bytes + item.size_bytes > bytes_max
            or item.wait_store is not first.wait_store
        )

    def add(self, item: Item, future: asyncio.Future[SendResult], deadline_ms: float) -> None:
        """Add a message that is to be answered by ``deadline_ms``."""
        self.items.append(item)
        self.futures.append(future)
        self.deadlines_ms.append(deadline_ms)
        self.size_bytes += item.size_bytes

    def outgoing(self) -> Outgoing:
        """Return the request. A batch has no key of its own: brokers then keep those of its messages."""
        items = self.items
        if len(items) == 1:
            return items[0].outgoing()
        pieces: list[bytes] = []
        head, length = BATCH_ENTRY_HEAD.pack, I16.pack
        for _, body, properties, _, flag, _, _, _, size_bytes in items:
            pieces += (head(size_bytes, 0, 0, flag, len(body)), body, length(len(properties)), properties)
        first = items[0]
        wait = wait_property(first.wait_store)
        return Outgoing(first.topic, b"".join(pieces), wait, ",".join([item.message_id for item in items]), 0, 0, True)

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
        for item, future, offset_id in zip(self.items, futures, ids, strict=False):
            if not future.done():
                future.set_result(SendResult(status, item.message_id, offset_id, queue, offset))
            offset += 1

    def singles(self) -> Iterator[Parcel]:
        """Yield each message that has no result yet as a parcel of its own."""
        for item, future, deadline_ms in zip(self.items, self.futures, self.deadlines_ms, strict=True):
            if not future.done():
                single = Parcel()
                single.add(item, future, deadline_ms)
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


def batch_entry_size(body: bytes, properties: bytes) -> int:
    """Return the size of a message as a batch's entry."""
    return BATCH_ENTRY_OVERHEAD_BYTES + len(body) + len(properties)
