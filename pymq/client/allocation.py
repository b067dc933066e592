"""The strategy that assigns queues to the members of a group: by its name, or a function of the application."""

from __future__ import annotations

from pymq.errors import UsageError
from pymq.model.allocation import (
    STRATEGIES,
    Configured,
    ConsistentHash,
    MachineRoom,
    Nearby,
    Strategy,
    average,
    average_by_circle,
)

__all__ = [
    "BY_NAME",
    "Configured",
    "ConsistentHash",
    "MachineRoom",
    "Nearby",
    "Strategy",
    "average",
    "average_by_circle",
    "strategy_of",
]

BY_NAME: dict[str, Strategy] = {**STRATEGIES, "CONSISTENT_HASH": ConsistentHash()}


def strategy_of(chosen: str | Strategy) -> Strategy:
    """Returns the strategy called ``chosen``, or ``chosen`` itself if it can be called. Raises UsageError otherwise."""
    found = chosen if callable(chosen) else BY_NAME.get(chosen)
    if found is None:
        raise UsageError(
            f"there is no rebalance strategy {chosen!r}: choose one of {', '.join(sorted(BY_NAME))}, "
            "or give a function (client_id, queues, client_ids) that returns queues"
        )
    return found
