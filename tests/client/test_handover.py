"""How a loop and a push consumer's handler meet."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from pymq.client import ConsumeResult, PushConsumer
from pymq.client.handover import Handover, UnhandledError
from pymq.errors import FilterStopError, UsageError
from tests.client.messages import message


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(60):
            await scenario()

    asyncio.run(main())


def test_a_message_is_done_when_the_loop_asks_for_the_next() -> None:
    async def scenario() -> None:
        handover = Handover()
        loop = handover.messages()
        calls = [asyncio.ensure_future(handover.handle([message(offset=n)])) for n in range(2)]
        assert (await anext(loop)).queue_offset == 0
        await asyncio.sleep(0)
        assert not calls[0].done()
        assert (await anext(loop)).queue_offset == 1
        assert await calls[0] is ConsumeResult.SUCCESS
        await loop.aclose()
        assert await calls[1] is ConsumeResult.RECONSUME_LATER

    run(scenario)


def test_the_first_verdict_counts() -> None:
    async def scenario() -> None:
        handover = Handover()
        loop = handover.messages()
        call = asyncio.ensure_future(handover.handle([message()]))
        taken = await anext(loop)
        handover.settle(taken, ConsumeResult.RECONSUME_LATER)
        handover.settle(taken, ConsumeResult.SUCCESS)
        handover.settle(message(), ConsumeResult.SUCCESS)  # one that no loop has
        await loop.aclose()
        assert await call is ConsumeResult.RECONSUME_LATER

    run(scenario)


def test_a_call_that_is_cancelled_takes_its_message_out_of_the_loops_way() -> None:
    async def scenario() -> None:
        handover = Handover()
        call = asyncio.ensure_future(handover.handle([message(offset=0)]))
        await asyncio.sleep(0)
        call.cancel()
        await asyncio.wait([call])
        later = asyncio.ensure_future(handover.handle([message(offset=1)]))
        assert (await anext(handover.messages())).queue_offset == 1
        later.cancel()

    run(scenario)


def test_the_end_leaves_messages_unhandled_that_no_loop_took() -> None:
    async def scenario() -> None:
        handover = Handover()
        loop = handover.messages()
        calls = [asyncio.ensure_future(handover.handle([message(offset=n)])) for n in range(2)]
        await anext(loop)
        await handover.end(None)
        with pytest.raises(UnhandledError):
            await calls[1]
        with pytest.raises(UnhandledError):
            await handover.handle([message(offset=2)])
        assert [one async for one in loop] == []
        assert await calls[0] is ConsumeResult.SUCCESS

    run(scenario)


def test_a_consumer_that_fails_ends_its_loops_with_the_reason() -> None:
    async def scenario() -> None:
        handover = Handover()
        waiting = asyncio.ensure_future(anext(handover.messages()))
        await asyncio.sleep(0)
        await handover.end(FilterStopError("no judgment"))
        with pytest.raises(FilterStopError, match="no judgment"):
            await waiting

    run(scenario)


def test_a_consumer_has_a_handler_or_loops() -> None:
    async def scenario() -> None:
        with pytest.raises(UsageError, match="leave on_message out"):
            aiter(PushConsumer("G", namesrv="127.0.0.1:1", on_message=print))
        with pytest.raises(UsageError, match="a loop gets one message at a time"):
            PushConsumer("G", namesrv="127.0.0.1:1", batch_count_max=2)
        assert PushConsumer("G", namesrv="127.0.0.1:1").settings.concurrency_max == 1

    run(scenario)
