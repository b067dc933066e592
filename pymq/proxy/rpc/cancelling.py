"""How the calls of a connection end that is over."""

from __future__ import annotations

import asyncio
from collections import deque

CANCELS_PER_TURN = 64  # of the event loop


def cancel_some(tasks: deque[asyncio.Task[None]]) -> None:
    """Cancel tasks, some in each turn of the event loop: thousands that end at once would keep others waiting."""
    for _ in range(min(CANCELS_PER_TURN, len(tasks))):
        tasks.popleft().cancel()
    if tasks:
        asyncio.get_running_loop().call_soon(cancel_some, tasks)
