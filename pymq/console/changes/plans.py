"""The plans that wait for their persons: each is used once, by the session that made it, and not for long."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pymq.clock import Clock
from pymq.console.changes.plan import Plan
from pymq.errors import NotFoundError

AGE_MAX_MS: Final = 10 * 60 * 1000
COUNT_OF_SESSION_MAX: Final = 20
COUNT_MAX: Final = 1_000
_NUMBER_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class Waiting:
    """A plan of a session, and when it was made (monotonic ms)."""

    session: str
    context: str
    plan: Plan
    made_ms: int


class Plans:
    """Waiting plans by their numbers, the oldest first."""

    def __init__(self, clock: Clock, draw_number: Callable[[int], str] = secrets.token_urlsafe) -> None:
        self._clock = clock
        self._draw_number = draw_number
        self._waiting: dict[str, Waiting] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def keep(self, session: str, context: str, plan: Plan) -> str:
        """Return the number of a new plan. The oldest plan of a session with too many goes, then the oldest of all."""
        self._forget_old()
        own = [number for number, each in self._waiting.items() if each.session == session]
        if len(own) >= COUNT_OF_SESSION_MAX:
            del self._waiting[own[0]]
        if len(self._waiting) >= COUNT_MAX:
            del self._waiting[next(iter(self._waiting))]
        number = self._draw_number(_NUMBER_BYTES)
        self._waiting[number] = Waiting(session, context, plan, self._clock.monotonic_ms())
        return number

    def find(self, session: str, context: str, number: str) -> Plan:
        """Return a plan, which stays. Raises NotFoundError for another session's, and for one that was used."""
        self._forget_old()
        found = self._waiting.get(number)
        if found is None or (found.session, found.context) != (session, context):
            raise NotFoundError(
                "this plan was used, or is older than 10 minutes: nothing is changed by it; make the plan again"
            )
        return found.plan

    def take(self, session: str, context: str, number: str) -> Plan:
        """Return a plan and forget it, so that it is used once. Raises as :meth:`find` does."""
        plan = self.find(session, context, number)
        del self._waiting[number]
        return plan

    def forget_session(self, session: str) -> None:
        """Forget the plans of a session that has ended."""
        for number in [number for number, each in self._waiting.items() if each.session == session]:
            del self._waiting[number]

    def _forget_old(self) -> None:
        now_ms = self._clock.monotonic_ms()
        for number in [number for number, each in self._waiting.items() if now_ms - each.made_ms >= AGE_MAX_MS]:
            del self._waiting[number]
