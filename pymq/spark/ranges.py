"""Ranges of queue offsets and how to read them: the picklable values that travel from the planner to Spark's tasks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from pymq.errors import PymqError, UsageError
from pymq.spark.options import DataLoss
from pymq.spark.pull_window import PULL_COUNT_MAX
from pymq.spark.selection import ALL, Selection

# A group that every broker has without being asked (Java: MixAll.TOOLS_CONSUMER_GROUP).
DEFAULT_GROUP = "TOOLS_CONSUMER"
PULL_SIZE_MAX_BYTES = 4 * 1024 * 1024


class DataLossError(PymqError):
    """Messages that a range should have are gone from the broker."""


@dataclass(slots=True, frozen=True)
class QueueRange:
    """Offsets [from_offset, to_offset) of one queue; ``addresses`` are its brokers' ("host:port"), the master first."""

    topic: str
    broker_name: str
    queue_id: int
    from_offset: int
    to_offset: int
    addresses: tuple[str, ...]

    @property
    def count(self) -> int:
        return self.to_offset - self.from_offset

    def __str__(self) -> str:
        return f"{self.topic} {self.broker_name}/{self.queue_id} [{self.from_offset}, {self.to_offset})"

    def split(self, rows_max: int) -> list[QueueRange]:
        """Parts of nearly equal size, none with more than ``rows_max`` offsets."""
        parts = max(1, -(-self.count // rows_max))
        cuts = [self.from_offset + self.count * part // parts for part in range(parts + 1)]
        return [replace(self, from_offset=cuts[n], to_offset=cuts[n + 1]) for n in range(parts)]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; the inverse is :meth:`from_dict`."""
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> QueueRange:
        """Inverse of :meth:`to_dict`."""
        return cls(**{**fields, "addresses": tuple(fields["addresses"])})


@dataclass(slots=True, frozen=True)
class ReadSettings:
    """How a range is read: columns, filter, sizes of pulls and batches."""

    columns: tuple[str, ...] = ()
    selection: Selection = ALL
    group: str = DEFAULT_GROUP
    on_data_loss: DataLoss = "fail"
    pull_count_max: int = PULL_COUNT_MAX
    pull_size_max_bytes: int = PULL_SIZE_MAX_BYTES
    pull_depth: int = 2
    batch_rows: int = 8192
    batch_size_bytes: int = 8 * 1024 * 1024
    timeout_s: float = 30.0
    attempts: int = 6
    """Tries without any progress before a range is given up."""

    def __post_init__(self) -> None:
        for name in (
            "pull_count_max",
            "pull_size_max_bytes",
            "pull_depth",
            "batch_rows",
            "batch_size_bytes",
            "attempts",
        ):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} is {getattr(self, name)}: it must be at least 1")

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; the inverse is :meth:`from_dict`."""
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> ReadSettings:
        """Inverse of :meth:`to_dict`."""
        selection = Selection(**fields["selection"])
        return cls(**{**fields, "columns": tuple(fields["columns"]), "selection": selection})


def total_count(ranges: Iterable[QueueRange]) -> int:
    """Offsets in all ranges."""
    return sum(part.count for part in ranges)
