"""Back-pressure: how much a producer has accepted and not had answered yet, and who waits for room."""

from __future__ import annotations

import asyncio
from collections import deque

from pymq.errors import OverloadedError, RequestTimeoutError, UsageError

COUNT_MAX = 16_384
BYTES_MAX = 64 * 1024 * 1024
WAIT = "wait"
REFUSE = "refuse"


class InFlight:
    """Messages and bytes in flight, each with a limit. Above one of them senders wait in order, or are refused.

    A message above ``bytes_max`` alone passes when nothing else is in flight.
    """

    __slots__ = ("_bytes_max", "_count_max", "_refuses", "_waiting", "bytes", "count")

    def __init__(self, count_max: int, bytes_max: int, when_full: str) -> None:
        """``when_full``: wait or refuse. Raises UsageError for another word, and for a limit below 1."""
        if when_full not in (WAIT, REFUSE):
            raise UsageError(f"when_full is {when_full!r}: write {WAIT} or {REFUSE}")
        for name, limit in (("in_flight_count_max", count_max), ("in_flight_bytes_max", bytes_max)):
            if limit < 1:
                raise UsageError(f"{name} is {limit}: it must be at least 1")
        self._count_max = count_max
        self._bytes_max = bytes_max
        self._refuses = when_full == REFUSE
        self._waiting: deque[tuple[asyncio.Future[None], int]] = deque()
        self.count = 0
        self.bytes = 0

    def try_take(self, size_bytes: int) -> bool:
        """Count one message in and return True, unless it must wait."""
        count, after_bytes = self.count, self.bytes + size_bytes
        if self._waiting or count >= self._count_max or (after_bytes > self._bytes_max and count):
            return False
        self.count = count + 1
        self.bytes = after_bytes
        return True

    async def take(self, size_bytes: int, timeout_s: float) -> None:
        """Count one message in, once there is room. Raises OverloadedError when asked to refuse, RequestTimeoutError.

        Senders get room in the order in which they came.
        """
        if self.try_take(size_bytes):
            return
        self.refuse()
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((granted, size_bytes))
        try:
            async with asyncio.timeout(timeout_s):
                await granted
        except BaseException as error:
            if granted.done() and not granted.cancelled():
                self.give(1, size_bytes)  # the room came together with the time-out
            else:
                granted.cancel()
                self._grant()
            if isinstance(error, TimeoutError):
                raise RequestTimeoutError(
                    f"no room for a message within {timeout_s:g} s: {self._load()}; are the brokers slow?"
                ) from None
            raise

    def refuse(self) -> None:
        """Raise OverloadedError if senders don't wait."""
        if self._refuses:
            raise OverloadedError(f"the producer takes no message now: {self._load()}; send later, or allow more")

    def give(self, count: int, size_bytes: int) -> None:
        """Count messages out, which lets waiting ones in."""
        self.count -= count
        self.bytes -= size_bytes
        if self._waiting:
            self._grant()

    def _grant(self) -> None:
        while self._waiting:
            granted, size_bytes = self._waiting[0]
            if not granted.done():
                if not self._has_room(size_bytes):
                    return
                self.count += 1
                self.bytes += size_bytes
                granted.set_result(None)
            self._waiting.popleft()

    def _has_room(self, size_bytes: int) -> bool:
        return self.count < self._count_max and (self.bytes + size_bytes <= self._bytes_max or not self.count)

    def _load(self) -> str:
        return (
            f"{self.count} messages with {self.bytes} bytes are in flight, the limits are in_flight_count_max "
            f"{self._count_max} and in_flight_bytes_max {self._bytes_max}"
        )
