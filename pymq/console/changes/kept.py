"""What waits for a person's second step: each is used once, by the session that made it, and not for long."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from pymq.clock import Clock
from pymq.errors import NotFoundError

COUNT_OF_SESSION_MAX: Final = 20
COUNT_MAX: Final = 1_000
_NUMBER_BYTES: Final = 16

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Waiting(Generic[T]):
    """Something of a session, and when it was made (monotonic ms)."""

    session: str
    context: str
    what: T
    made_ms: int


class Kept(Generic[T]):
    """What waits, by numbers that nobody guesses, the oldest first."""

    def __init__(
        self, clock: Clock, age_max_ms: int, gone: str, draw_number: Callable[[int], str] = secrets.token_urlsafe
    ) -> None:
        """``gone``: what to say of a number that is no more."""
        self._clock = clock
        self._age_max_ms = age_max_ms
        self._gone = gone
        self._draw_number = draw_number
        self._waiting: dict[str, _Waiting[T]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def keep(self, session: str, context: str, what: T) -> str:
        """Return a new number. The oldest of a session with too many goes, then the oldest of all."""
        self._forget_old()
        own = [number for number, each in self._waiting.items() if each.session == session]
        if len(own) >= COUNT_OF_SESSION_MAX:
            del self._waiting[own[0]]
        if len(self._waiting) >= COUNT_MAX:
            del self._waiting[next(iter(self._waiting))]
        number = self._draw_number(_NUMBER_BYTES)
        self._waiting[number] = _Waiting(session, context, what, self._clock.monotonic_ms())
        return number

    def find(self, session: str, context: str, number: str) -> T:
        """Return what stays kept. Raises NotFoundError for another session's, and for what was used or is too old."""
        self._forget_old()
        found = self._waiting.get(number)
        if found is None or (found.session, found.context) != (session, context):
            raise NotFoundError(self._gone)
        return found.what

    def take(self, session: str, context: str, number: str) -> T:
        """Return it and forget it, so that it is used once. Raises as :meth:`find` does."""
        what = self.find(session, context, number)
        del self._waiting[number]
        return what

    def forget_session(self, session: str) -> None:
        """Forget what waits for a session that has ended."""
        for number in [number for number, each in self._waiting.items() if each.session == session]:
            del self._waiting[number]

    def _forget_old(self) -> None:
        now_ms = self._clock.monotonic_ms()
        for number in [number for number, each in self._waiting.items() if now_ms - each.made_ms >= self._age_max_ms]:
            del self._waiting[number]
