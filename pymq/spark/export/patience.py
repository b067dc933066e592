"""How long work that goes on for days tries again what fails."""

from __future__ import annotations

import time
from collections.abc import Callable


class Patience:
    """Allows failures for a time that begins with the first one. Take a new one after a success."""

    def __init__(
        self, budget_s: float, trying_again: Callable[[str], object], monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        """Allow none with a budget of 0. ``trying_again`` gets the reason at the first failure."""
        self._budget_s = budget_s
        self._trying_again = trying_again
        self._monotonic = monotonic
        self._failed_s: float | None = None

    def has_some(self, error: Exception) -> bool:
        """Return whether to try again."""
        if self._budget_s <= 0:
            return False
        now_s = self._monotonic()
        if self._failed_s is None:
            self._failed_s = now_s
            self._trying_again(str(error))
        return now_s - self._failed_s < self._budget_s
