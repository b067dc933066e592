"""Second runs: a scenario of a foreign client that fails on a busy machine is repeated alone and reported.

A foreign client has races and timeouts that no server can prevent. A fault of the server occurs again; so a
scenario that fails twice fails, and a session in which more than a few fail once fails as well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

SECOND_RUNS_MAX = 3
_ERROR_LENGTH_MAX = 300


@dataclass
class SecondRuns:
    """All second runs of a session; ``lines`` are for its summary."""

    count: int = 0
    lines: list[str] = field(default_factory=list)

    def run(self, what: str, first_error: str, again: Callable[[], str | None]) -> None:
        """Call ``again``, which returns an error or None; AssertionError when it fails too or there were too many."""
        shown = " ".join(first_error.split())[:_ERROR_LENGTH_MAX]
        if self.count >= SECOND_RUNS_MAX:
            self.lines.append(f"failed: {what}, no second run after {SECOND_RUNS_MAX} others, error: {shown}")
            raise AssertionError(
                f"{what}: {first_error}\nnot run again: {SECOND_RUNS_MAX} others failed once in this session, which is "
                "more than chance"
            )
        self.count += 1
        second_error = again()
        if second_error is not None:
            self.lines.append(f"failed twice: {what}, first error: {shown}")
            raise AssertionError(f"{what}: {first_error}\nand again, alone: {second_error}")
        self.lines.append(f"flaked once: {what}, first error: {shown}")
