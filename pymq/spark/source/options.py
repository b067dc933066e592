"""The options of ``format("pymq")``, parsed. :mod:`pymq.spark.source.option_names` has the table of their names."""

from __future__ import annotations

import json

from pymq.client.schema_registry import SchemaRegistry
from pymq.errors import UsageError
from pymq.model.compression import INFLATION_RATIO_MAX
from pymq.spark.planning.planner import PartitionSizes
from pymq.spark.planning.positions import LATEST, Position, parse_by_queue, parse_position
from pymq.spark.planning.ranges import DEFAULT_GROUP, QueueRange, ReadSettings
from pymq.spark.planning.selection import Selection
from pymq.spark.planning.store_place import StorePlace
from pymq.spark.planning.topics import TopicChoice, parse_assigned, parse_pattern
from pymq.spark.reading.unrepeated import DUPLICATE_WINDOW_ROWS
from pymq.spark.records.schema import BAD_RECORD, OF_REGISTRY, check_columns
from pymq.spark.settings import BODY_ERROR_MODES, DATA_LOSS_MODES, RETRY_BUDGET_S, DataLoss
from pymq.spark.source.option_names import OPTIONS, ColumnOptions
from pymq.units import parse_duration_ms, parse_size_bytes, parse_time_ms

UNSPLIT_ROWS = 1 << 62


# Options of a store directory, and the options of brokers that exclude them.
STORE_OPTIONS = ("store", "commitLog", "brokerName", "whileRunning")
_BROKER_OPTIONS = ("namesrv", "filterVia")


class SourceOptions(ColumnOptions):
    """All options of a reader. Every method raises UsageError for an illegal value."""

    def refuse_stream_options(self) -> None:
        """Raise UsageError for an option that only streams have."""
        for option in OPTIONS:
            if option.only_streams and option.name in self._values:
                raise UsageError(f"option {option.name} is for spark.readStream: a batch reads its whole range")

    def refuse_batch_options(self) -> None:
        """Raise UsageError for an option that only batches have."""
        for option in OPTIONS:
            if option.only_batches and option.name in self._values:
                pushes = option.name == "pushFilters"
                reason = "Spark pushes no filters down to streams" if pushes else "a stream goes on"
                if option.name in STORE_OPTIONS:
                    reason = "a stream needs a broker"
                raise UsageError(f"option {option.name} is for spark.read: {reason}")

    def store(self) -> StorePlace | None:
        """Return the store directory to read, None for brokers."""
        given = [name for name in STORE_OPTIONS if self.text(name)]
        if not given:
            return None
        if not self.text("store"):
            raise UsageError(f"option {given[0]} is for a store directory: give store too, or leave it out")
        for name in _BROKER_OPTIONS:
            if self.text(name):
                raise UsageError(f"options store and {name} exclude each other: a directory is read without a broker")
        return StorePlace(
            self.text("store"), self.text("commitLog"), self.text("brokerName"), self._flag("whileRunning")
        )

    def topics(self) -> TopicChoice:
        """Return which topics and queues to read."""
        names = self.text("topics") or self.text("path")
        chosen = [name for name in ("topics", "path", "subscribePattern", "assign") if self.text(name)]
        if len(chosen) > 1:
            raise UsageError(f"options {' and '.join(chosen)} exclude each other: give one")
        if "subscribePattern" in chosen:
            return TopicChoice(pattern=parse_pattern(self.text("subscribePattern")))
        if "assign" in chosen:
            return TopicChoice(assigned=parse_assigned(self.text("assign")))
        return TopicChoice(tuple(name.strip() for name in names.split(",") if name.strip()))

    def start(self, now_ms: int, default: str = "earliest") -> Position:
        """Return where to begin; relative times count back from ``now_ms``."""
        return self._position("starting", default, now_ms)

    def end(self, now_ms: int) -> Position:
        """Return where to end."""
        return self._position("ending", "latest", now_ms)

    def selection(self) -> Selection:
        """Return which messages to read."""
        values = self._values
        return Selection(
            tag=values.get("tag", "*"),
            sql=values.get("sql"),
            filter=values.get("filter"),
            expression=values.get("filterExpression"),
            on_error=values.get("filterOnError", "skip"),
            via=values.get("filterVia"),
        )

    def read_settings(self, columns: tuple[str, ...], selection: Selection) -> ReadSettings:
        """Return how to read the ranges."""
        if BAD_RECORD in columns and self.body_schema is None:
            raise UsageError(f"the column {BAD_RECORD} needs a schema of the bodies: give bodyFormat and bodySchema")
        return ReadSettings(
            columns=check_columns(columns),
            selection=selection,
            credentials=self.credentials,
            group=self.text("group", DEFAULT_GROUP),
            on_data_loss=self._on_data_loss(),
            body_errors=self._choice("bodyErrors", BODY_ERROR_MODES, "replace"),
            registry=self._registry(columns),
            body_schema=self.body_schema,
            retry_budget_s=self._parsed("retryBudgetSeconds", RETRY_BUDGET_S, float, "seconds, such as 60"),
            inflation_ratio_max=self.number("inflateRatio", INFLATION_RATIO_MAX),
            duplicate_window_rows=self._duplicate_window_rows(),
            store=self.store(),
        )

    def _registry(self, columns: tuple[str, ...]) -> str:
        url = self.text("registry", "")
        if url:
            SchemaRegistry(url)
        elif OF_REGISTRY in columns:
            raise UsageError(f"the column {OF_REGISTRY} needs the option registry: the URL of a schema registry")
        return url

    def partition_sizes(self) -> PartitionSizes:
        """Return how a query's ranges are split."""
        rows_max = self.number("maxRowsPerPartition", 0) if "maxRowsPerPartition" in self._values else None
        if rows_max is None and self._duplicate_window_rows():
            rows_max = UNSPLIT_ROWS  # each part reads the rows before it too
        return PartitionSizes(rows_max, self.number("minPartitions", 1))

    @property
    def pushes_filters(self) -> bool:
        return self._flag("pushFilters")

    @property
    def batch_bytes_max(self) -> int:
        """The most stored bytes of a batch; 0 for no limit."""
        size_bytes = self._parsed("maxBytesPerTrigger", 0, parse_size_bytes, "a size, such as 64MB")
        if not size_bytes and self.text("maxBytesPerTrigger"):
            raise UsageError("option maxBytesPerTrigger is 0: write a size of at least 1 byte, such as 64MB")
        return size_bytes

    @property
    def delay_max_ms(self) -> int:
        """The longest wait for ``minOffsetsPerTrigger``, in ms."""
        return self._parsed("maxTriggerDelay", 15 * 60 * 1000, parse_duration_ms, "a duration, such as 15m")

    def ranges(self) -> list[QueueRange] | None:
        """Return the ranges that an export has planned; None without them."""
        text = self._values.get("ranges")
        return None if text is None else [QueueRange.from_dict(fields) for fields in json.loads(text)]

    def _position(self, side: str, default: str, now_ms: int) -> Position:
        names = (f"{side}Offsets", f"{side}Timestamp", f"{side}OffsetsByTimestamp")
        given = [name for name in names if name in self._values]
        if len(given) > 1:
            raise UsageError(f"options {' and '.join(given)} exclude each other: give one")
        if not given:
            return parse_position(default, now_ms)
        text = self._values[given[0]]
        if given[0] == names[1]:
            return Position(time_ms=parse_time_ms(text, now_ms))
        if given[0] == names[2]:
            return Position(symbol=LATEST, times_ms=parse_by_queue(text))
        return parse_position(text, now_ms)

    def _duplicate_window_rows(self) -> int:
        """Return among how many rows before it a message is a repetition; 0 to leave none out."""
        text = self.text("dropDuplicates", "false").strip().lower()
        if text.isdecimal() and len(text) > 1:
            return self.number("dropDuplicates", 0)
        return DUPLICATE_WINDOW_ROWS if self._flag("dropDuplicates") else 0

    def _on_data_loss(self) -> DataLoss:
        if "failOnDataLoss" in self._values:
            if "onDataLoss" in self._values:
                raise UsageError("options failOnDataLoss and onDataLoss exclude each other: give one")
            return "fail" if self._flag("failOnDataLoss") else "report"
        return self._choice("onDataLoss", DATA_LOSS_MODES, "fail")
