"""The newest hand-out of a lite topic, as models of its consumption keep it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeVar

from tests.broker.handlers.test_lite_pops import Popped

KeyT = TypeVar("KeyT")


@dataclass
class HandOut(Generic[KeyT]):
    """By a message's key, which the model chooses: its number in the answer, and when it comes again (Unix ms)."""

    popped: Popped
    invisible_ms: int
    numbers: dict[KeyT, int]
    visible_ms: dict[KeyT, int]
    acked: set[KeyT] = field(default_factory=set)

    def left(self) -> list[KeyT]:
        return [key for key in self.numbers if key not in self.acked]

    def free_ms(self) -> int:
        """Return when the whole hand-out is over: its lite topic is blocked until then."""
        return max((self.visible_ms[key] for key in self.left()), default=0)
