"""The options of ``format("pymq")`` in one table, and what Spark asks for first: the columns.

Spark's Kafka source has many of these names, with the same meaning; older names of PyMQ are synonyms. docs/spark.md
describes them. This module stands apart from :mod:`pymq.spark.source.options` because Spark asks for the columns in a
Python process that reads nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pymq.spark.named_options import NamedOptions
from pymq.spark.records.schema import check_columns, parse_columns


class SourceOption(NamedTuple):
    """One option: its name, other names for it, and its purpose."""

    name: str
    synonyms: tuple[str, ...] = ()
    only_streams: bool = False
    only_batches: bool = False
    is_internal: bool = False


OPTIONS = (
    SourceOption("namesrv"),
    SourceOption("credentials"),
    SourceOption("store", only_batches=True),
    SourceOption("commitLog", only_batches=True),
    SourceOption("brokerName", only_batches=True),
    SourceOption("whileRunning", only_batches=True),
    SourceOption("archive", only_batches=True),
    SourceOption("topics", ("topic", "subscribe")),
    SourceOption("path", is_internal=True),
    SourceOption("subscribePattern"),
    SourceOption("assign"),
    SourceOption("startingOffsets"),
    SourceOption("endingOffsets", only_batches=True),
    SourceOption("startingTimestamp"),
    SourceOption("endingTimestamp", only_batches=True),
    SourceOption("startingOffsetsByTimestamp"),
    SourceOption("endingOffsetsByTimestamp", only_batches=True),
    SourceOption("columns"),
    SourceOption("includeHeaders"),
    SourceOption("tag"),
    SourceOption("sql"),
    SourceOption("filter"),
    SourceOption("filterExpression"),
    SourceOption("filterOnError"),
    SourceOption("filterVia"),
    SourceOption("group", ("groupIdPrefix",)),
    SourceOption("onDataLoss"),
    SourceOption("failOnDataLoss"),
    SourceOption("bodyErrors"),
    SourceOption("registry"),
    SourceOption("dropDuplicates"),
    SourceOption("retryBudgetSeconds"),
    SourceOption("inflateRatio"),
    SourceOption("maxRowsPerPartition", ("maxRecordsPerPartition",)),
    SourceOption("minPartitions"),
    SourceOption("pushFilters", only_batches=True),
    SourceOption("maxOffsetsPerTrigger", only_streams=True),
    SourceOption("minOffsetsPerTrigger", only_streams=True),
    SourceOption("maxTriggerDelay", only_streams=True),
    SourceOption("commitGroup", only_streams=True),
    SourceOption("ranges", is_internal=True),
    SourceOption("progress", is_internal=True),
)
_NAMES = {name.lower(): option.name for option in OPTIONS for name in (option.name, *option.synonyms)}
_SHOWN = {name.lower(): name for option in OPTIONS for name in (option.name, *option.synonyms)}
# Options of other sources, with what says the same here.
EQUIVALENTS = {
    "kafka.bootstrap.servers": "write namesrv, the addresses of the name servers as host:port;host:port",
    "bootstrap.servers": "write namesrv, the addresses of the name servers as host:port;host:port",
    "nameserver": "write namesrv, the addresses of the name servers as host:port;host:port",
    "nameserveraddr": "write namesrv, the addresses of the name servers as host:port;host:port",
    "fetchoffset.numretries": "write retryBudgetSeconds, the time without an answer before the read fails",
    "fetchoffset.retryintervalms": "write retryBudgetSeconds, the time without an answer before the read fails",
    "kafkaconsumer.polltimeoutms": "write retryBudgetSeconds, the time without an answer before the read fails",
    "kafka.group.id": "write group",
    "startingoffsetsbytimestampstrategy": "leave it out: a time after the last message reads nothing until there are",
    "includetimestamp": "leave it out: bornTimestamp and storeTimestamp are columns",
    "subexpression": "write tag, or sql for an expression over properties",
}


class ColumnOptions(NamedOptions):
    """Options as given, by their names in any case. Every method raises UsageError for an illegal value."""

    def __init__(self, given: Mapping[str, str]) -> None:
        """Raise UsageError for an unknown option, or for one that is given twice under two names."""
        super().__init__(given, _SHOWN, _NAMES, _equivalent)

    def columns(self) -> tuple[str, ...]:
        """Return the columns in order: those asked for, else the usual ones."""
        columns = check_columns(parse_columns(self.text("columns")))
        if self._flag("includeHeaders") and "headers" not in columns:
            columns += ("headers",)
        return columns


def _equivalent(name: str) -> str | None:
    """Return what says the same as another source's option, by its name in lower case."""
    return EQUIVALENTS.get(name) or ("leave it out: PyMQ has no Kafka client" if name.startswith("kafka.") else None)


def known_names() -> set[str]:
    """Return the names and synonyms of all options for users."""
    return {name for option in OPTIONS if not option.is_internal for name in (option.name, *option.synonyms)}
