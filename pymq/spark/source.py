"""The source ``spark.read.format("pymq")``: topics as DataFrames, with one partition per range of a queue.

Options (any case): ``namesrv``, ``topics`` (names or globs, separated by commas; or ``topic``), ``startingOffsets``,
``endingOffsets``, ``columns``, ``tag``, ``sql``, ``filter``, ``filterExpression``, ``filterOnError``, ``filterVia``,
``group``, ``onDataLoss``, ``inflateRatio``, ``maxRowsPerPartition``, ``minPartitions``, ``pushFilters``.
docs/spark.md describes them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from pymq.clock import Clock, SystemClock
from pymq.errors import UsageError
from pymq.model.compression import INFLATION_RATIO_MAX
from pymq.spark.cluster import RemoteCluster
from pymq.spark.options import DATA_LOSS_MODES, ROWS_PER_TASK
from pymq.spark.planner import choose_topics, make_plan, parse_position, split_ranges
from pymq.spark.progress import RowSender
from pymq.spark.pushdown import Pushdown
from pymq.spark.ranges import DEFAULT_GROUP, QueueRange, ReadSettings
from pymq.spark.reader import RangeReader
from pymq.spark.schema import check_columns, spark_ddl
from pymq.spark.selection import Selection, checked

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter
    from pyspark.sql.types import StructType

NAME = "pymq"
# The last three are set by an export that has its own plan, and by load("topic").
KNOWN_OPTIONS = frozenset(
    {
        "namesrv",
        "topics",
        "topic",
        "startingoffsets",
        "endingoffsets",
        "columns",
        "tag",
        "sql",
        "filter",
        "filterexpression",
        "filteronerror",
        "filtervia",
        "group",
        "ondataloss",
        "inflateratio",
        "maxrowsperpartition",
        "minpartitions",
        "pushfilters",
        "ranges",
        "progress",
        "path",
    }
)


class PymqDataSource(DataSource):  # type: ignore[misc]
    """Topics of a PyMQ or RocketMQ cluster as a batch source."""

    @classmethod
    def name(cls) -> str:
        """Returns the format's name."""
        return NAME

    def schema(self) -> str:
        """Returns the requested columns, or the usual ones."""
        return spark_ddl(_columns(_lower(self.options)))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Returns a reader of the schema's columns; with option pushFilters, one that uses the query's WHERE.

        Spark refuses readers with filter pushdown while its setting for that is off, which is the default.
        """
        options = _lower(self.options)
        kind = FilteringReader if _flag(options, "pushfilters") else PymqReader
        return kind(options, tuple(schema.fieldNames()))


class RangePartition(InputPartition):  # type: ignore[misc]
    """One range of one queue."""

    def __init__(self, part: QueueRange) -> None:
        self.part = part


class PymqReader(DataSourceReader):  # type: ignore[misc]
    """Plans ranges on the driver and reads them in the tasks."""

    def __init__(self, options: Mapping[str, str], columns: tuple[str, ...], *, clock: Clock | None = None) -> None:
        self._options = dict(options)
        clock = clock or SystemClock()
        self._now_ms = clock.now_ms()
        self._pushdown = Pushdown()
        loss = options.get("ondataloss", "fail")
        if loss not in DATA_LOSS_MODES:
            raise UsageError(f"onDataLoss {loss!r} is unknown: use one of {', '.join(DATA_LOSS_MODES)}")
        self._settings = ReadSettings(
            columns=check_columns(columns),
            selection=checked(_selection(options), clock),
            group=options.get("group", DEFAULT_GROUP),
            on_data_loss=loss,  # type: ignore[arg-type]
            inflation_ratio_max=_number(options, "inflateratio", INFLATION_RATIO_MAX),
        )

    def partitions(self) -> Sequence[InputPartition]:
        """Asks the name server and the brokers for the ranges to read."""
        options = self._options
        ranges = self._given_ranges() if "ranges" in options else self._planned_ranges()
        parts = split_ranges(
            self._pushdown.apply(ranges),
            rows_max=_number(options, "maxrowsperpartition", ROWS_PER_TASK),
            count_min=_number(options, "minpartitions", 1),
        )
        # Spark needs at least one partition, even an empty one.
        return [RangePartition(part) for part in parts] or [RangePartition(QueueRange("", "", 0, 0, 0, ()))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the rows of one range."""
        assert isinstance(partition, RangePartition)
        pushdown = self._pushdown
        selection = self._settings.selection.with_pushdown(pushdown.tag_expression(), pushdown.sql())
        settings = replace(self._settings, selection=selection)
        sender = RowSender(self._options.get("progress", ""), str(partition.part))
        try:
            for batch in RangeReader(partition.part, settings).batches():
                yield batch
                sender.add(batch.num_rows)
        finally:
            sender.close()

    def _given_ranges(self) -> list[QueueRange]:
        return [QueueRange.from_dict(fields) for fields in json.loads(self._options["ranges"])]

    def _planned_ranges(self) -> list[QueueRange]:
        options = self._options
        start = parse_position(options.get("startingoffsets", "earliest"), self._now_ms)
        end = parse_position(options.get("endingoffsets", "latest"), self._now_ms)
        names = options.get("topics") or options.get("topic") or options.get("path") or ""
        with RemoteCluster(options.get("namesrv", "127.0.0.1:9876")) as view:
            topics = choose_topics(view, [name.strip() for name in names.split(",") if name.strip()])
            via = self._settings.selection.via is not None
            return make_plan(view, self._pushdown.topics(topics), start, end, via_filter_servers=via).ranges


class FilteringReader(PymqReader):
    """Reads only the queues and offsets that match a query's WHERE; brokers filter by its tags or properties."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Uses the filters it knows and returns all of them, so that Spark checks each row again."""
        for condition in filters:
            self._pushdown.take(condition)
        return filters


def _lower(options: Mapping[str, str]) -> dict[str, str]:
    lowered = {name.lower(): value for name, value in options.items()}
    unknown = sorted(set(lowered) - KNOWN_OPTIONS)
    if unknown:
        raise UsageError(f"option {', '.join(unknown)} is unknown to format pymq: see docs/spark.md for the options")
    return lowered


def _columns(options: Mapping[str, str]) -> tuple[str, ...]:
    return check_columns([name.strip() for name in options.get("columns", "").split(",") if name.strip()])


def _selection(options: Mapping[str, str]) -> Selection:
    return Selection(
        tag=options.get("tag", "*"),
        sql=options.get("sql"),
        filter=options.get("filter"),
        expression=options.get("filterexpression"),
        on_error=options.get("filteronerror", "skip"),
        via=options.get("filtervia"),
    )


def _number(options: Mapping[str, str], name: str, default: int) -> int:
    text = options.get(name, str(default))
    if not text.isdigit() or int(text) < 1:
        raise UsageError(f"option {name} is {text!r}: write a whole number of at least 1")
    return int(text)


def _flag(options: Mapping[str, Any], name: str) -> bool:
    return str(options.get(name, "false")).lower() == "true"
