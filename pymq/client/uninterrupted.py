"""Runs work that a cancelled task must not leave half done."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def uninterrupted(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of ``work``. A cancellation takes effect once ``work`` has ended; its failure is then lost.

    A second cancellation takes effect at once, but ``work`` still continues.
    """
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # asyncio logs a failure that is never retrieved
        raise
