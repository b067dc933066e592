"""RequestRoom: the large requests that a server decodes and serves at the same time. The others wait for their turn.

A request takes several times its size while it is served: its bytes, its fields, what goes to the broker. So the server
works on so many bytes at once. Hosts take turns, so that many requests of one don't delay those of another.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque


class RequestRoom:
    """Room for ``size_bytes_max`` of requests."""

    def __init__(self, size_bytes_max: int) -> None:
        self.size_bytes_max = size_bytes_max
        self.taken_bytes = 0
        self._waiting: OrderedDict[str, deque[tuple[int, asyncio.Future[None]]]] = OrderedDict()  # by host

    async def enter(self, host: str, size_bytes: int) -> int:
        """Wait for room, and return what to give to :meth:`leave`. A request larger than all room waits for all."""
        size_bytes = min(size_bytes, self.size_bytes_max)
        if not self._waiting and self.taken_bytes + size_bytes <= self.size_bytes_max:
            self.taken_bytes += size_bytes
            return size_bytes
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(host, deque()).append((size_bytes, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # its turn had come
                self.leave(size_bytes)
            else:
                turn.cancel()
                self._let_in()
            raise
        return size_bytes

    def leave(self, size_bytes: int) -> None:
        """Give room back."""
        self.taken_bytes -= size_bytes
        self._let_in()

    def _let_in(self) -> None:
        while self._waiting:
            host, of_host = next(iter(self._waiting.items()))
            size_bytes, turn = of_host[0]
            if not turn.cancelled() and self.taken_bytes + size_bytes > self.size_bytes_max:
                return
            of_host.popleft()
            if of_host:
                self._waiting.move_to_end(host)
            else:
                del self._waiting[host]
            if not turn.cancelled():
                self.taken_bytes += size_bytes
                turn.set_result(None)
