"""The plugin interface of filters: the hook, the protocols, and a helper for filters without state.

A package offers filters in a module with ``@hookimpl def pymq_filters()``, named in its entry point group
``pymq.filters``. :mod:`pymq.filter.registry` finds them. This module imports pluggy, so import it only to run filters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

import pluggy

from pymq.errors import FilterError
from pymq.filter.messages import FilterMessage

ENTRY_POINTS = "pymq.filters"
PROJECT = "pymq"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)

# True: match. False: no match. None: unknown, which counts as no match. FilterError: the filter failed on this message.
Outcome: TypeAlias = bool | FilterError | None


class CompiledFilter(Protocol):
    """One compiled expression. It may keep state between batches: every subscription has its own."""

    def match(self, batch: Sequence[FilterMessage]) -> list[Outcome]:
        """Return one outcome per message, in order. An exception counts as an error of every message of the batch."""
        ...


class FilterPlugin(Protocol):
    """A kind of filter.

    ``name`` has lower-case letters, digits and ``-``; ``doc`` is one line with an example expression.

    A filter whose outcomes depend on earlier messages sets ``keeps_state = True``; a filter server then gives all
    messages of a subscription to one process.
    """

    @property
    def name(self) -> str: ...

    @property
    def doc(self) -> str: ...

    def compile(self, expression: str) -> CompiledFilter:
        """Compile an expression.

        Raises ExpressionError, with a column, for a wrong expression or one over the plugin's own limits. The caller
        checks the expression's length; the work must be bounded by it.
        """
        ...


class FilterHooks:
    """The hook specification."""

    @hookspec
    def pymq_filters(self) -> Sequence[FilterPlugin]:  # type: ignore[empty-body]
        """Return the filters of a package."""


class EachMessage:
    """Makes a filter from a test of single messages: an error of one message leaves the others alone."""

    __slots__ = ("_test",)

    def __init__(self, test: Callable[[FilterMessage], bool | None]) -> None:
        """``test`` may raise FilterError."""
        self._test = test

    def match(self, batch: Sequence[FilterMessage]) -> list[Outcome]:
        test = self._test
        outcomes: list[Outcome] = []
        for message in batch:
            try:
                outcomes.append(test(message))
            except FilterError as error:
                outcomes.append(error)
        return outcomes
