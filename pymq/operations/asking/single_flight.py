"""The same question, asked twice at once, goes out once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class _Flight(Generic[T]):
    """A question on its way, and how many wait for its answer."""

    task: asyncio.Future[T]
    waiting: int = 0


class SingleFlight(Generic[T]):
    """Questions by key. One that is on its way is joined; one that has ended is asked again."""

    def __init__(self) -> None:
        self._flights: dict[Hashable, _Flight[T]] = {}

    async def ask(self, key: Hashable, question: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return the answer to ``question``, or to one with the same key that is on its way; raise its error.

        A caller that is cancelled leaves the question to the others. It ends with the last of them.
        """
        flight = self._flights.get(key)
        if flight is None or flight.task.done():
            flight = self._flights[key] = _Flight(asyncio.ensure_future(question()))
        flight.waiting += 1
        try:
            return await asyncio.shield(flight.task)
        finally:
            flight.waiting -= 1
            if not flight.waiting:
                if self._flights.get(key) is flight:
                    del self._flights[key]
                if not flight.task.done():
                    flight.task.cancel()
                    await asyncio.wait([flight.task])
