"""WaitingAnswers: calls of one connection whose answers its client's windows, or its reading, hold back."""

from __future__ import annotations

import asyncio
from collections import deque

WAKES_PER_TURN = 128  # of calls that may be able to send; the others in later turns


class WaitingAnswers:
    """The calls that wait, by their streams."""

    def __init__(self) -> None:
        self._waiting: dict[int, asyncio.Future[None]] = {}
        self._to_wake: deque[int] = deque()

    async def wait(self, stream_id: int) -> None:
        """Wait until the answer of a stream may be sent, or perhaps."""
        waiter = self._waiting[stream_id] = asyncio.get_running_loop().create_future()
        try:
            await waiter
        finally:
            if self._waiting.get(stream_id) is waiter:
                del self._waiting[stream_id]

    def opened(self, stream_id: int) -> bool:
        """Hear that more may be sent on a stream, 0: on all. Return whether :meth:`wake_some` has something to do."""
        if stream_id:
            self._wake(stream_id)
        elif self._waiting:
            self._to_wake = deque(self._waiting)
        return bool(self._to_wake)

    def wake_some(self) -> bool:
        """Wake WAKES_PER_TURN calls at most. Return whether there are more."""
        for _ in range(min(WAKES_PER_TURN, len(self._to_wake))):
            self._wake(self._to_wake.popleft())
        return bool(self._to_wake)

    def _wake(self, stream_id: int) -> None:
        waiter = self._waiting.get(stream_id)
        if waiter is not None and not waiter.done():
            waiter.set_result(None)
