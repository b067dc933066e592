"""Where what clients have compressed is inflated: small data at once, other data in a thread.

Data may grow 200-fold and more, and the event loop would stand still meanwhile. THREADS work at the same time: what
they make is in memory before anybody has looked at it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Concatenate, ParamSpec, TypeVar

INFLATED_HERE_BYTES_MAX = 4 * 1024  # of compressed data
THREADS = 2

_More = ParamSpec("_More")
_Found = TypeVar("_Found")
_threads = ThreadPoolExecutor(THREADS, "pymq-grpc")


async def inflated_by(
    work: Callable[Concatenate[bytes, _More], _Found], data: bytes, *more: _More.args, **options: _More.kwargs
) -> _Found:
    """Return what ``work(data, *more)`` returns. Raises what it raises."""
    if len(data) <= INFLATED_HERE_BYTES_MAX:
        return work(data, *more, **options)
    return await in_thread(lambda: work(data, *more, **options))


def in_thread(work: Callable[[], _Found]) -> asyncio.Future[_Found]:
    """Begin ``work`` in one of the threads, and return its future."""
    return asyncio.get_running_loop().run_in_executor(_threads, work)
