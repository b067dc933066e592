"""What a filter plugin is: the hook, the protocols its objects keep, and a helper for filters without state.

A package offers filters by a module with ``@hookimpl def pymq_filters()``, named in its entry points' group
``pymq.filters``. :mod:`pymq.filter.registry` finds them; this module imports pluggy, so only filters' users import it.
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

# True: wanted. False: not. None: unknown, which is no match. A FilterError: this message can't be judged.
Outcome: TypeAlias = bool | FilterError | None


class CompiledFilter(Protocol):
    """One expression, ready. It may keep state between batches: every subscription has one of its own."""

    def match(self, batch: Sequence[FilterMessage]) -> list[Outcome]:
        """One outcome a message, in their order. An exception counts as an error of every message of the batch."""
        ...


class FilterPlugin(Protocol):
    """A kind of filter. ``name``: lower-case letters, digits and ``-``; ``doc``: one line, with an expression.

    A filter whose outcomes depend on earlier messages has ``keeps_state = True``: a filter server then gives all
    messages of a subscription to one process.
    """

    @property
    def name(self) -> str: ...

    @property
    def doc(self) -> str: ...

    def compile(self, expression: str) -> CompiledFilter:
        """Raises ExpressionError, with a column, for an expression that is wrong or over the plugin's own limits.

        Work on an expression must be bounded by its length, which is checked before.
        """
        ...


class FilterHooks:
    """The hook specification."""

    @hookspec
    def pymq_filters(self) -> Sequence[FilterPlugin]:  # type: ignore[empty-body]
        """The filters that a package brings."""


class EachMessage:
    """A filter out of a test of single messages: an error of one leaves the others alone."""

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
