"""Messages of one queue between pull and commit: what is cached, what runs, and how far everything is done."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from pymq.model.message import MessageQueue
from pymq.model.record import StoredMessage


class ProcessQueue:
    """The cache of one assigned queue (Java: ProcessQueue). Offsets arrive in ascending order, leave in any.

    ``next_pull_offset`` is where the next pull starts; :meth:`commit_offset` is how far all messages are done.
    Once ``dropped`` its messages must not move the group's offset: another member may own the queue.
    Times are Unix ms; ``locked_until_ms`` is on the monotonic clock, 0 without a lock.
    """

    def __init__(self, queue: MessageQueue, start_offset: int, *, count_max: int, bytes_max: int) -> None:
        self.queue = queue
        self.next_pull_offset = start_offset
        self.dropped = False
        self.closing = False  # orderly: the running handler is the last one
        self.locked_until_ms = 0
        self.last_pull_ms = 0
        self.last_consume_ms = 0
        self.last_lock_ms = 0
        self.waiting: list[StoredMessage] = []  # orderly: arrived and not done yet, in order
        self._count_max = count_max
        self._bytes_max = bytes_max
        self._messages: dict[int, StoredMessage] = {}
        self._bytes = 0
        self._removed = asyncio.Event()
        self._arrived = asyncio.Event()

    @property
    def count(self) -> int:
        """Messages cached or being handled."""
        return len(self._messages)

    @property
    def size_bytes(self) -> int:
        """Bytes of their records."""
        return self._bytes

    @property
    def is_full(self) -> bool:
        return len(self._messages) >= self._count_max or self._bytes >= self._bytes_max

    def add(self, messages: Iterable[StoredMessage]) -> None:
        """Takes a pull's messages in."""
        for message in messages:
            self._messages[message.queue_offset] = message
            self._bytes += message.size_bytes
        self._arrived.set()

    def remove(self, messages: Iterable[StoredMessage]) -> None:
        """Takes out messages that are done or given up."""
        for message in messages:
            if self._messages.pop(message.queue_offset, None) is not None:
                self._bytes -= message.size_bytes
        self._removed.set()

    def commit_offset(self) -> int:
        """The first offset not yet done: of the oldest cached message, else where the next pull starts."""
        for offset in self._messages:
            return offset
        return self.next_pull_offset

    def first_offset(self) -> int:
        """Lowest cached offset, 0 when the cache is empty."""
        return next(iter(self._messages), 0)

    def last_offset(self) -> int:
        """Highest cached offset, 0 when the cache is empty."""
        return next(reversed(self._messages), 0)

    def drop(self) -> None:
        """Ends the queue's use here; wakes whoever waits so that it sees ``dropped``."""
        self.dropped = True
        self._removed.set()
        self._arrived.set()

    def close(self) -> None:
        """Asks orderly consumption to end after the batch it handles now."""
        self.closing = True
        self._arrived.set()

    async def wait_for_room(self) -> None:
        """Returns once below both limits, or dropped."""
        while self.is_full and not self.dropped:
            self._removed.clear()
            await self._removed.wait()

    async def wait_until_done(self) -> None:
        """Returns once nothing is cached or handled any more, dropped or not."""
        while self._messages:
            self._removed.clear()
            await self._removed.wait()

    async def wait_for_messages(self) -> None:
        """Returns once ``waiting`` holds something, or the queue is dropped or closing."""
        while not self.waiting and not self.dropped and not self.closing:
            self._arrived.clear()
            await self._arrived.wait()
