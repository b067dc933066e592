"""ProblemLog: logs each problem of the store once when it begins and once when it is over."""

from __future__ import annotations

import logging
from typing import Protocol

log = logging.getLogger(__name__)


class Troubled(Protocol):
    """Something with problems: a store."""

    @property
    def problems(self) -> list[str]: ...


class ProblemLog:
    """Compares the problems with those of the last look. Call :meth:`tick` from time to time."""

    def __init__(self, store: Troubled) -> None:
        self._store = store
        self._known: list[str] = []

    def tick(self) -> None:
        """Log what is new and what is over since the last call."""
        known, self._known = self._known, self._store.problems
        for problem in self._known:
            if problem not in known:
                log.error("%s", problem)
        for problem in known:
            if problem not in self._known:
                log.warning("this is over: %s", problem)
