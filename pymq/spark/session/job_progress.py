"""The progress of an export or import, as its caller sees it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class ExportProgress(Protocol):
    """Receives the progress of an export; one background thread may call every method."""

    def phase(self, text: str) -> None:
        """Called when a new part of the work begins ("planning", "starting Spark", "exporting")."""
        ...

    def rows(self, done: int, planned: int) -> None:
        """Called with the rows read so far and the planned rows; the last call has the exact number."""
        ...

    def topics(self, behind: Mapping[str, int], rows: Mapping[str, int]) -> None:
        """Called after a look and a commit: each topic's offsets that are to be read, and its rows that are written."""
        ...

    def batch(self, rows: int, seconds: float) -> None:
        """Called when the messages that one look found are written."""
        ...

    def trying_again(self, why: str) -> None:
        """Called when an export that follows waits for a cluster or repeats a batch; once until that has succeeded."""
        ...

    def kept(self, rows: int, output: str) -> None:
        """Called before an export fails or is interrupted, with the rows of this run that are committed."""
        ...


class NoProgress:
    """Ignores the progress."""

    def phase(self, text: str) -> None:
        """Do nothing."""

    def rows(self, done: int, planned: int) -> None:
        """Do nothing."""

    def topics(self, behind: Mapping[str, int], rows: Mapping[str, int]) -> None:
        """Do nothing."""

    def batch(self, rows: int, seconds: float) -> None:
        """Do nothing."""

    def trying_again(self, why: str) -> None:
        """Do nothing."""

    def kept(self, rows: int, output: str) -> None:
        """Do nothing."""
