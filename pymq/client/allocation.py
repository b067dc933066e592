"""The strategy that assigns queues to the members of a group, by its name."""

from __future__ import annotations

from pymq.errors import UsageError
from pymq.model.allocation import STRATEGIES, Strategy


def strategy_named(name: str) -> Strategy:
    """Returns the strategy called ``name``. Raises UsageError that lists the known ones."""
    found = STRATEGIES.get(name)
    if found is None:
        raise UsageError(f"there is no rebalance strategy {name!r}: choose one of {', '.join(sorted(STRATEGIES))}")
    return found
