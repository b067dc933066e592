"""Chooses where rows come from: brokers, a store directory, or a lake before one of them.

What reads directories and lakes is imported when it is asked for: most queries need brokers alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol

from pymq.spark.planning.cluster import ClusterView, RemoteCluster
from pymq.spark.planning.ranges import QueueRange, ReadSettings

if TYPE_CHECKING:
    import pyarrow as pa

    from pymq.spark.planning.store_view import StoreView
    from pymq.spark.reading.unrepeated import UnrepeatedReader


class RowReader(Protocol):
    """Reads one range once; its numbers grow meanwhile."""

    rows: int
    lost: int
    bytes_read: int

    @property
    def filter_errors(self) -> int:
        """Messages on which the reader's filter failed."""
        ...

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in order of their offsets."""
        ...


def reader_of(part: QueueRange, settings: ReadSettings) -> RowReader:
    """Return a reader of the range."""
    if settings.store is not None:
        from pymq.spark.reading.store_reader import StoreReader

        return StoreReader(part, settings)
    if part.needs_look:
        from pymq.spark.reading.recognized import RecognizedReader

        return RecognizedReader(part, settings)
    from pymq.spark.reading.reader import RangeReader

    return RangeReader(part, settings)


def open_reader(part: QueueRange, settings: ReadSettings) -> RowReader | UnrepeatedReader:
    """Return what reads a range for a query, without repeated messages if the settings say so."""
    if settings.duplicate_window_rows:
        from pymq.spark.reading.unrepeated import UnrepeatedReader

        return UnrepeatedReader(part, settings, reader_of)
    return reader_of(part, settings)


def open_view(namesrv: str, settings: ReadSettings) -> RemoteCluster | StoreView:
    """Return the planner's view, for a ``with`` block. Raises what the view's class does."""
    if settings.store is not None:
        from pymq.spark.planning.store_view import StoreView

        return StoreView(settings.store, settings.on_data_loss)
    return RemoteCluster(namesrv, credentials=settings.credentials, retry_budget_s=settings.retry_budget_s)


def in_reading_order(view: ClusterView, ranges: list[QueueRange]) -> list[QueueRange]:
    """Return the ranges in the best order for reading: a store's in pieces of its log."""
    split: Callable[[list[QueueRange]], list[QueueRange]] | None = getattr(view, "split", None)
    return ranges if split is None else split(ranges)
