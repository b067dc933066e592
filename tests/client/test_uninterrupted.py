"""Work that continues after its caller was canceled."""

from __future__ import annotations

import asyncio
from typing import Any, Never

import pytest

from pymq.client.uninterrupted import uninterrupted


def test_results_and_failures_are_passed_on() -> None:
    async def fail() -> Never:
        raise ValueError("no")

    async def main() -> None:
        assert await uninterrupted(asyncio.sleep(0, "done")) == "done"
        with pytest.raises(ValueError, match="no"):
            await uninterrupted(fail())

    asyncio.run(main())


@pytest.mark.parametrize("failure", [None, ValueError("lost")])
def test_a_cancellation_waits_for_the_end(failure: Any) -> None:
    gate = asyncio.Event()
    ended = []

    async def work() -> None:
        await gate.wait()
        ended.append(True)
        if failure is not None:
            raise failure

    async def main() -> None:
        task = asyncio.ensure_future(uninterrupted(work()))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task], timeout=0.01)
        assert not task.done() and not ended
        gate.set()
        await asyncio.wait([task])
        assert task.cancelled() and ended

    asyncio.run(main())
