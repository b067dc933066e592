"""Questions that may fail."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar

from pymq.errors import PymqError

T = TypeVar("T")


async def or_none(work: Awaitable[T]) -> T | None:
    """Return the answer, None for a question that fails with a PymqError."""
    try:
        return await work
    except PymqError:
        return None
