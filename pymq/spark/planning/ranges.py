"""Ranges of queue offsets and read settings: picklable values that the planner passes to Spark's tasks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any

from pymq.errors import PymqError, UsageError
from pymq.model.compression import INFLATION_RATIO_MAX
from pymq.spark.bodies.body_format import BodyFormat
from pymq.spark.planning.selection import ALL, Selection
from pymq.spark.planning.store_place import StorePlace
from pymq.spark.settings import RETRY_BUDGET_S, BodyErrors, DataLoss

# A group that every broker has from the start (Java: MixAll.TOOLS_CONSUMER_GROUP).
DEFAULT_GROUP = "TOOLS_CONSUMER"
PULL_COUNT_MAX = 4096
# Four pulls keep the broker, the socket and the reader busy; together they are as large as a batch.
PULL_SIZE_MAX_BYTES = 2 * 1024 * 1024
PULL_DEPTH = 4


QueueKey = tuple[str, str, int]
"""A queue's topic, broker name and id."""


class DataLossError(PymqError):
    """The broker no longer has messages of a range."""


class ResumeError(PymqError):
    """An earlier export's positions don't fit the cluster's queues."""


@dataclass(slots=True, frozen=True)
class Identity:
    """How a queue is recognized when it is read: one of a topic that was made again is another under its name."""

    deleted_below: int | None = None
    """What its broker said when the range was planned (:class:`~pymq.wire.headers.admin.TopicStatsAnswer`)."""
    offset: int = -1
    digest: str = ""
    """The digest of the record at ``offset``, for brokers that don't say that; empty: none is known."""


@dataclass(slots=True, frozen=True)
class QueueRange:
    """Offsets [from_offset, to_offset) of one queue; ``addresses``: "host:port" of its brokers, the master first."""

    topic: str
    broker_name: str
    queue_id: int
    from_offset: int
    to_offset: int
    addresses: tuple[str, ...]
    has_master: bool = True
    """Whether the first address is a master's: what a slave lacks may only not have come yet."""
    identity: Identity | None = None
    generation: int = 1
    """Which topic of this name an export has met: each time that it was made again counts."""

    @property
    def key(self) -> QueueKey:
        return self.topic, self.broker_name, self.queue_id

    @property
    def needs_look(self) -> bool:
        """Whether a record alone shows that its queue is the planned one: its broker does not say it."""
        identity = self.identity
        return identity is not None and identity.deleted_below is None and bool(identity.digest)

    @property
    def count(self) -> int:
        return self.to_offset - self.from_offset

    def __str__(self) -> str:
        return f"{self.topic} {self.broker_name}/{self.queue_id} [{self.from_offset}, {self.to_offset})"

    def split(self, rows_max: int) -> list[QueueRange]:
        """Split the range into parts of nearly equal size, none with more than ``rows_max`` offsets."""
        parts = max(1, -(-self.count // rows_max))
        bounds = [self.from_offset + self.count * part // parts for part in range(parts + 1)]
        return [replace(self, from_offset=bounds[n], to_offset=bounds[n + 1]) for n in range(parts)]

    def cut(self, offsets: Sequence[int]) -> list[QueueRange]:
        """Return the parts between these ascending offsets of the range, of which some may be empty."""
        bounds = [self.from_offset, *offsets, self.to_offset]
        return [replace(self, from_offset=first, to_offset=last) for first, last in pairwise(bounds)]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; the inverse is :meth:`from_dict`."""
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> QueueRange:
        """Inverse of :meth:`to_dict`."""
        identity = Identity(**fields["identity"]) if fields["identity"] else None
        return cls(**{**fields, "addresses": tuple(fields["addresses"]), "identity": identity})


@dataclass(slots=True, frozen=True)
class ReadSettings:
    """The settings for reading a range: columns, filter, sizes of pulls and batches."""

    columns: tuple[str, ...] = ()
    selection: Selection = ALL
    group: str = DEFAULT_GROUP
    on_data_loss: DataLoss = "fail"
    pull_count_max: int = PULL_COUNT_MAX
    pull_size_max_bytes: int = PULL_SIZE_MAX_BYTES
    pull_depth: int = PULL_DEPTH
    batch_rows: int = 8192
    batch_size_bytes: int = 8 * 1024 * 1024
    timeout_s: float = 30.0
    credentials: str = ""
    """A reference, never a secret: what it names is looked up where the range is read (Credentials.find)."""
    body_errors: BodyErrors = "replace"
    body_form: str = ""
    """What the column ``body`` holds instead of bytes, see :mod:`pymq.spark.records.bodies`."""
    registry: str = ""
    """The URL of the schema registry for the column ``bodyJson``."""
    body_schema: BodyFormat | None = None
    """The schema that makes the column ``body`` one of types."""
    retry_budget_s: float = RETRY_BUDGET_S
    """Seconds without progress, because no broker answers or all are busy, before the read of a range fails."""
    inflation_ratio_max: int = INFLATION_RATIO_MAX
    """Most bytes that the bodies of a range may inflate to, as a multiple of their messages' size."""
    duplicate_window_rows: int = 0
    """Messages with the id and body of one among so many rows before them are left out; 0 leaves none out."""
    store: StorePlace | None = None
    """The directory to read instead of brokers."""

    def __post_init__(self) -> None:
        for name in (
            "pull_count_max",
            "pull_size_max_bytes",
            "pull_depth",
            "batch_rows",
            "batch_size_bytes",
            "inflation_ratio_max",
        ):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} is {getattr(self, name)}: it must be at least 1")
        if not 0 <= self.retry_budget_s < float("inf"):
            raise UsageError(f"the retry budget is {self.retry_budget_s} s: write 0 or more seconds")

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; the inverse is :meth:`from_dict`."""
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> ReadSettings:
        """Inverse of :meth:`to_dict`."""
        selection = Selection(**fields["selection"])
        store = StorePlace(**fields["store"]) if fields["store"] else None
        body_schema = BodyFormat.from_dict(fields["body_schema"]) if fields["body_schema"] else None
        given = {"selection": selection, "store": store, "body_schema": body_schema}
        return cls(**{**fields, "columns": tuple(fields["columns"]), **given})


def total_count(ranges: Iterable[QueueRange]) -> int:
    """Return the number of offsets in all ranges."""
    return sum(part.count for part in ranges)
