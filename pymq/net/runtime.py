"""Runs a role's coroutine on the fastest loop there is, until it ends or a signal says stop."""

from __future__ import annotations

import asyncio
import gc
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

# Requests leave few cycles behind: looking for them after every 700 new objects, Python's default, costs a tenth of a
# broker's time.
GC_THRESHOLDS = (20_000, 20, 50)


def run(main: Coroutine[Any, Any, T]) -> T:
    """Runs ``main`` to its end, on uvloop where it is installed."""
    gc.set_threshold(*GC_THRESHOLDS)
    try:
        import uvloop  # noqa: PLC0415 - it is not there on every system
    except ImportError:
        return asyncio.run(main)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)


async def wait_for_stop_signal() -> int:
    """Returns the number of the first SIGINT or SIGTERM; a second one has its usual effect."""
    loop = asyncio.get_running_loop()
    got: asyncio.Future[int] = loop.create_future()

    def stop(number: int) -> None:
        for each in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(each)
        if not got.done():
            got.set_result(number)

    for each in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(each, stop, each)
    return await got
