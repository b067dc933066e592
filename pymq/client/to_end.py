"""Work that a cancelled task must not leave half done."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def to_end(work: Coroutine[Any, Any, T]) -> T:
    """The result of ``work``. A cancellation takes effect only once ``work`` is over, whose own failure is then lost.

    A second cancellation doesn't wait, but ``work`` still goes on.
    """
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # marks it as seen
        raise
