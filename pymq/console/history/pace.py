"""Pace: how often a part of a cluster is asked, so that the answers take a small part of the time."""

from __future__ import annotations

from typing import Final

# Of the time, for the answers of each of four parts. A broker that is busy with other things answers late.
SHARE_MAX: Final = 0.05 / 4
EARLY_MS: Final = 500  # a round of questions may begin so much before it is due


class Pace:
    """The times of one question. ``interval_ms``: from the last one to the next."""

    def __init__(self, base_ms: int) -> None:
        """``base_ms``: the interval when answers come at once."""
        self.base_ms = base_ms
        self.interval_ms = base_ms
        self._due_ms: int | None = None

    @property
    def has_begun(self) -> bool:
        """Whether the question was asked, or put off."""
        return self._due_ms is not None

    def is_due(self, now_ms: int) -> bool:
        """Return whether it is time to ask (monotonic ms)."""
        return self._due_ms is None or now_ms >= self._due_ms - EARLY_MS

    def note(self, begun_ms: int, ended_ms: int, *, rounds: int = 1) -> None:
        """Note when the last question began and when its answer came.

        ``rounds``: so many questions are needed for all of the answer; they share the interval.
        """
        longest_ms = round((ended_ms - begun_ms) / SHARE_MAX)
        self.interval_ms = max(self.base_ms // rounds, longest_ms)
        self._due_ms = begun_ms + self.interval_ms

    def put_off(self, until_ms: int) -> None:
        """Ask no earlier than then."""
        self._due_ms = until_ms
