"""Messages of one queue between pull and commit: the cached and running ones, and the offset to commit."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import ClassVar

from pymq.model.message import MessageQueue
from pymq.model.record import StoredMessage


class ProcessQueue:
    """The cache of one assigned queue (Java: ProcessQueue). Offsets arrive in ascending order and leave in any order.

    ``next_pull_offset`` is the start of the next pull; all messages below :meth:`commit_offset` are done.
    Once ``dropped``, its messages must not move the group's offset: another member may own the queue.
    Times are Unix ms, 0 for never; ``locked_until_ms`` and ``last_call_ms`` (of the handler) are monotonic.
    """

    is_popped: ClassVar[bool] = False  # True: the broker knows what is done, and no offset is committed

    def __init__(self, queue: MessageQueue, start_offset: int, *, count_max: int, bytes_max: int) -> None:
        self.queue = queue
        self.next_pull_offset = start_offset
        self.dropped = False
        self.closing = False  # orderly: the running handler is the last one
        self.locked_until_ms = 0
        self.last_pull_ms = 0
        self.last_call_ms = 0
        self.last_lock_ms = 0
        self.waiting: list[StoredMessage] = []  # orderly: messages that are not done yet, in order
        self._count_max = count_max
        self._bytes_max = bytes_max
        self._messages: dict[int, StoredMessage] = {}
        self._bytes = 0
        self._removed = asyncio.Event()
        self._arrived = asyncio.Event()

    @property
    def count(self) -> int:
        """The number of messages that are cached or being handled."""
        return len(self._messages)

    @property
    def size_bytes(self) -> int:
        """The size of the records of these messages."""
        return self._bytes

    @property
    def is_full(self) -> bool:
        return len(self._messages) >= self._count_max or self._bytes >= self._bytes_max

    def add(self, messages: Iterable[StoredMessage]) -> None:
        """Add the messages of a pull."""
        for message in messages:
            self._messages[message.queue_offset] = message
            self._bytes += message.size_bytes
        self._arrived.set()

    def remove(self, messages: Iterable[StoredMessage]) -> None:
        """Remove messages that are done or given up."""
        for message in messages:
            if self._messages.pop(message.queue_offset, None) is not None:
                self._bytes -= message.size_bytes
        self._removed.set()

    def commit_offset(self) -> int:
        """Return the offset to commit: that of the oldest cached message, else that of the next pull."""
        for offset in self._messages:
            return offset
        return self.next_pull_offset

    def first_offset(self) -> int:
        """Return the lowest cached offset, 0 when the cache is empty."""
        return next(iter(self._messages), 0)

    def last_offset(self) -> int:
        """Return the highest cached offset, 0 when the cache is empty."""
        return next(reversed(self._messages), 0)

    def drop(self) -> None:
        """End the use of the queue in this client, and wake all waiting tasks so that they see ``dropped``."""
        self.dropped = True
        self._removed.set()
        self._arrived.set()

    def close(self) -> None:
        """Make orderly consumption end after the batch it handles now."""
        self.closing = True
        self._arrived.set()

    async def wait_for_room(self) -> None:
        """Return once the cache is below both limits, or dropped."""
        while self.is_full and not self.dropped:
            self._removed.clear()
            await self._removed.wait()

    async def wait_until_done(self) -> None:
        """Return once no message is cached or being handled, even if the queue is dropped."""
        while self._messages:
            self._removed.clear()
            await self._removed.wait()

    async def wait_for_messages(self) -> None:
        """Return once ``waiting`` holds a message, or the queue is dropped or closing."""
        while not self.waiting and not self.dropped and not self.closing:
            self._arrived.clear()
            await self._arrived.wait()
