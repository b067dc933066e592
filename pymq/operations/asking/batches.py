"""Many questions, some at a time: a broker refuses what is too much at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from pymq.errors import PymqError

AT_ONCE = 16  # brokers refuse with 2 when 64 such requests wait

KeyT = TypeVar("KeyT")
T = TypeVar("T")


async def for_each(keys: Iterable[KeyT], work: Callable[[KeyT], Awaitable[T]], at_once: int = AT_ONCE) -> list[T]:
    """Return what ``work`` returns for each key, in their order; ``at_once`` run at a time."""
    waiting = list(keys)
    found: list[T] = []
    for at in range(0, len(waiting), at_once):
        found += await asyncio.gather(*map(work, waiting[at : at + at_once]))
    return found


async def or_none(work: Awaitable[T]) -> T | None:
    """Return the answer, None for a question that fails with a PymqError."""
    try:
        return await work
    except PymqError:
        return None
