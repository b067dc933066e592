"""The calls of a connection that is over end a part at a time."""

from __future__ import annotations

import asyncio
from collections import deque

from pymq.proxy.rpc.connection import CANCELS_PER_TURN, cancel_some


def test_so_many_are_cancelled_in_a_turn() -> None:
    async def work() -> None:
        async def waits() -> None:
            await asyncio.Event().wait()

        tasks = [asyncio.create_task(waits()) for _ in range(2 * CANCELS_PER_TURN + 1)]
        await asyncio.sleep(0)
        cancel_some(deque(tasks))
        assert sum(task.cancelling() for task in tasks) == CANCELS_PER_TURN
        await asyncio.gather(*tasks, return_exceptions=True)
        assert all(task.cancelled() for task in tasks)

    asyncio.run(work())
