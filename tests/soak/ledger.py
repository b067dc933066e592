"""What the members of one group handled, and what they must not have done."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Ledger:
    """Handled messages of a group, by queue and number. ``in_order``: the group's queues are consumed in order."""

    name: str
    in_order: bool
    handled: Counter[tuple[int, int]] = field(default_factory=Counter)
    changes: int = 0  # members that joined, left or were killed
    faults: list[str] = field(default_factory=list)
    _running: dict[int, str] = field(default_factory=dict)  # queue -> the member that handles a message of it
    _highest: dict[int, int] = field(default_factory=dict)

    @property
    def doubles(self) -> int:
        """How often a message was handled that had been handled before."""
        return self.handled.total() - len(self.handled)

    def begin(self, member: str, queue: int, number: int) -> None:
        """Notes that ``member`` begins to handle a message."""
        if not self.in_order:
            return
        other = self._running.get(queue)
        if other is not None:
            self.faults.append(f"queue {queue}: {member} handles {number} while {other} handles another message")
        highest = self._highest.get(queue, -1)
        if number > highest + 1:
            self.faults.append(f"queue {queue}: {member} handles {number} after {highest}")
        self._running[queue] = member
        self._highest[queue] = max(highest, number)

    def end(self, queue: int, number: int, *, done: bool) -> None:
        """Notes the end of a call; ``done`` is False for one that a kill cut off."""
        if self.in_order:
            self._running.pop(queue, None)
        if done:
            self.handled[queue, number] += 1
