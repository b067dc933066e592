"""About the console: its version, its limits, and who uses it."""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any, Final

from pymq import __version__
from pymq.console.asking import cluster, clusters
from pymq.console.memory import MemoryBudget
from pymq.console.pages.page import PAGE_TIMEOUT_S, Page, Visit
from pymq.console.pages.sections import Column, Kind, Table, Values
from pymq.console.people import log_in, sessions
from pymq.console.web import bodies
from pymq.console.web.serving import ServingLimits

# Counts that change, by their names.
Counts = Callable[[], dict[str, int]]

_ABOUT: Final = (Column("version", "PyMQ"), Column("python", "Python"), Column("contexts", "Contexts", Kind.names))
_NUMBERS: Final = (Column("name", "What"), Column("value", "Now", Kind.number))
_LIMITS: Final = (Column("name", "What"), Column("value", "At most", Kind.number))
_KEYS: Final = (Column("keys", "Keys"), Column("does", "What it does"))
KEYS: Final = (
    {"keys": "/", "does": "go to the search field"},
    {"keys": "g o, g b, g t, g g", "does": "go to overview, brokers, topics, groups"},
    {"keys": "g m, g d, g c, g x", "does": "go to messages, dead letters, clients, doctor"},
    {"keys": "j, k, Enter", "does": "next row, row before, open it"},
    {"keys": "?", "does": "this page"},
    {"keys": "Esc", "does": "leave a field"},
)
LIMITS: Final = {
    "seconds that a page waits for the cluster": round(PAGE_TIMEOUT_S),
    "milliseconds that an answer is kept": cluster.KEPT_MS,
    "milliseconds that an answer is kept that took long": cluster.LONG_KEPT_MS,
    "questions of one person at once": cluster.AT_ONCE,
    "persons with connections": clusters.COUNT_MAX,
    "milliseconds until unused connections are closed": clusters.IDLE_MAX_MS,
    "sessions": sessions.SESSION_COUNT_MAX,
    "milliseconds until an unused session ends": sessions.IDLE_MAX_MS,
    "milliseconds of a session": sessions.AGE_MAX_MS,
    "wrong secrets a minute, for a name and an address": log_in.FREE_FAILURES,
    "connections": ServingLimits().connection_count_max,
    "connections of one address": ServingLimits().connection_count_of_host_max,
    "bytes of a form": bodies.FORM_BYTES_MAX,
}


class About:
    """Makes the page of a console whose ``counts`` change."""

    def __init__(self, contexts: list[str], memory: MemoryBudget, counts: Counts) -> None:
        self._contexts = contexts
        self._limits = LIMITS | {
            "bytes of the memory budget": memory.total_bytes,
            "bytes of kept answers": memory.kept_bytes_max,
            "series of the last hour": memory.series_max,
        }
        self._counts = counts

    async def page(self, visit: Visit) -> Page:
        """Return the page. It asks no cluster."""
        about = {"version": __version__, "python": platform.python_version(), "contexts": self._contexts}
        counts = _rows(self._counts())
        limits = _rows(self._limits)
        data: dict[str, Any] = about | {"counts": counts, "limits": limits}
        sections = [
            Values("This console", _ABOUT, about),
            Table("Keys", _KEYS, KEYS, ""),
            Table("Now", _NUMBERS, counts, ""),
            Table("Limits", _LIMITS, limits, ""),
        ]
        return Page("About", "sections.html", data, ("--version",), {"sections": sections})


def _rows(numbers: dict[str, int]) -> list[dict[str, Any]]:
    return [{"name": name, "value": value} for name, value in numbers.items()]
