"""Reads a batch of ``format("pymq")``: plans ranges of queues on the driver, and reads them in the tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from pymq.clock import Clock, SystemClock
from pymq.spark.planning.planner import make_plan
from pymq.spark.planning.ranges import QueueRange
from pymq.spark.planning.selection import checked
from pymq.spark.source.options import SourceOptions
from pymq.spark.source.partitions import RangePartition
from pymq.spark.source.pushdown import Pushdown
from pymq.spark.source.sources_of_rows import in_reading_order, open_reader, open_view
from pymq.spark.tasks import workers
from pymq.spark.tasks.progress import RowSender

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter


class PymqReader(DataSourceReader):  # type: ignore[misc]
    """Plans ranges on the driver and reads them in the tasks."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...], *, clock: Clock | None = None) -> None:
        """Raise UsageError for an illegal option: a query that can't work fails before it starts."""
        options.refuse_stream_options()
        clock = clock or SystemClock()
        now_ms = clock.now_ms()
        self._namesrv = options.namesrv
        self._topics = options.topics()
        self._start, self._end = options.start(now_ms), options.end(now_ms)
        self._sizes = options.partition_sizes()
        self._progress = options.text("progress")
        self._given = options.ranges()
        self._settings = options.read_settings(columns, checked(options.selection(), clock))
        self._pushdown = Pushdown()

    def partitions(self) -> Sequence[InputPartition]:
        """Ask the name server and the brokers for the ranges to read."""
        ranges = self._planned_ranges() if self._given is None else self._pushdown.apply(self._given)
        tasks = self._sizes.tasks(ranges)
        # Spark needs at least one partition, even an empty one.
        return [RangePartition(parts) for parts in tasks] or [RangePartition(())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the partition's ranges."""
        assert isinstance(partition, RangePartition)
        pushdown = self._pushdown
        selection = self._settings.selection.with_pushdown(pushdown.tag_expression(), pushdown.sql())
        settings = replace(self._settings, selection=selection)
        with workers.task():
            for part in partition.parts:
                sender = RowSender(self._progress, str(part))
                try:
                    for batch in open_reader(part, settings).batches():
                        yield batch
                        sender.add(batch.num_rows)
                finally:
                    sender.close()

    def _planned_ranges(self) -> list[QueueRange]:
        settings = self._settings
        with open_view(self._namesrv, settings) as view:
            plan = make_plan(
                view,
                self._topics,
                self._start,
                self._end,
                only=self._pushdown.allows_topic,
                via_filter_servers=settings.selection.via is not None,
            )
            return in_reading_order(view, self._pushdown.apply(plan.ranges))


class FilteringReader(PymqReader):
    """Reads only the queues and offsets that match a query's WHERE; brokers filter by its tags or properties."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Use the filters it knows and return all of them, so that Spark checks each row again."""
        for condition in filters:
            self._pushdown.take(condition)
        return filters
