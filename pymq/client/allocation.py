"""The strategy that assigns queues to the members of a group: by its name, or a function of the application."""

from __future__ import annotations

from pymq.model.allocation import (
    BY_NAME,
    Configured,
    ConsistentHash,
    MachineRoom,
    Nearby,
    Strategy,
    average,
    average_by_circle,
    strategy_of,
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
