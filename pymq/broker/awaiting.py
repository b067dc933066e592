"""Waiting on the event loop, for parts that are tested without one and get these functions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def awaited(begin: Callable[[Callable[[T], None]], None]) -> T:
    """Return the value that a callback brings. It is ignored when the wait was cancelled."""
    future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    begin(lambda value: None if future.done() else future.set_result(value))
    return await future


async def pause(duration_ms: int) -> None:
    await asyncio.sleep(duration_ms / 1000)


async def connect_problem(host: str, port: int, timeout_s: float) -> str:
    """Return why no connection to ``host:port`` opens; empty when one does."""
    try:
        _, writer = await asyncio.wait_for(asyncio.open_connection(host, port), timeout_s)
    except TimeoutError:
        return f"no answer within {timeout_s:g} s"
    except OSError as error:
        return str(error)
    writer.close()
    return ""
