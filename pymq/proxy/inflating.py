"""Where what clients have compressed is inflated: small data at once, other data in a thread.

Data may grow 200-fold and more, and the event loop would stand still meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

INFLATED_HERE_BYTES_MAX = 16 * 1024  # of compressed data

_More = ParamSpec("_More")
_Found = TypeVar("_Found")


async def inflated_by(
    work: Callable[Concatenate[bytes, _More], _Found], data: bytes, *more: _More.args, **options: _More.kwargs
) -> _Found:
    """Return what ``work(data, *more)`` returns. Raises what it raises."""
    if len(data) <= INFLATED_HERE_BYTES_MAX:
        return work(data, *more, **options)
    return await asyncio.to_thread(work, data, *more, **options)
