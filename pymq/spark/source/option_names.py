"""The options of ``format("pymq")`` in one table, and what Spark asks for first: the columns.

Spark's Kafka source has many of these names, with the same meaning; older names of PyMQ are synonyms. docs/spark.md
describes them. This module stands apart from :mod:`pymq.spark.source.options` because Spark asks for the columns in a
Python process that reads nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from pymq.errors import UsageError
from pymq.spark.bodies.body_format import FORMATS, ON_BAD_RECORD
from pymq.spark.named_options import NamedOptions, Option, OptionTable
from pymq.spark.records.schema import BAD_RECORD, check_columns, parse_columns

if TYPE_CHECKING:
    from pymq.spark.bodies.body_format import BodyFormat

OPTIONS = (
    Option("namesrv"),
    Option("credentials"),
    Option("store", only_batches=True),
    Option("commitLog", only_batches=True),
    Option("brokerName", only_batches=True),
    Option("whileRunning", only_batches=True),
    Option("topics", ("topic", "subscribe")),
    Option("path", is_internal=True),
    Option("subscribePattern"),
    Option("assign"),
    Option("startingOffsets"),
    Option("endingOffsets", only_batches=True),
    Option("startingTimestamp"),
    Option("endingTimestamp", only_batches=True),
    Option("startingOffsetsByTimestamp"),
    Option("endingOffsetsByTimestamp", only_batches=True),
    Option("columns"),
    Option("includeHeaders"),
    Option("tag"),
    Option("sql"),
    Option("filter"),
    Option("filterExpression"),
    Option("filterOnError"),
    Option("filterVia"),
    Option("group", ("groupIdPrefix",)),
    Option("onDataLoss"),
    Option("failOnDataLoss"),
    Option("bodyErrors"),
    Option("registry"),
    Option("bodyFormat"),
    Option("bodySchema"),
    Option("bodyMessage"),
    Option("onBadRecord"),
    Option("dropDuplicates"),
    Option("retryBudgetSeconds"),
    Option("inflateRatio"),
    Option("maxRowsPerPartition", ("maxRecordsPerPartition",)),
    Option("minPartitions"),
    Option("pushFilters", only_batches=True),
    Option("maxOffsetsPerTrigger", only_streams=True),
    Option("maxBytesPerTrigger", only_streams=True),
    Option("minOffsetsPerTrigger", only_streams=True),
    Option("maxTriggerDelay", only_streams=True),
    Option("commitGroup", only_streams=True),
    Option("ranges", is_internal=True),
    Option("progress", is_internal=True),
)
# Options of other sources, with what says the same here.
_EQUIVALENTS = {
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
_BODY_OPTIONS = ("bodyFormat", "bodySchema", "bodyMessage", "onBadRecord")
OPTION_TABLE = OptionTable(OPTIONS, _EQUIVALENTS)
known_names = OPTION_TABLE.known_names


class ColumnOptions(NamedOptions):
    """Options as given, by their names in any case. Every method raises UsageError for an illegal value."""

    def __init__(self, given: Mapping[str, str]) -> None:
        """Raise UsageError for an unknown option, or for one that is given twice under two names."""
        super().__init__(given, OPTION_TABLE)

    def columns(self) -> tuple[str, ...]:
        """Return the columns in order: those asked for, else the usual ones."""
        columns = check_columns(parse_columns(self.text("columns")))
        if self._flag("includeHeaders") and "headers" not in columns:
            columns += ("headers",)
        if self._choice("onBadRecord", ON_BAD_RECORD, "fail") == "table" and BAD_RECORD not in columns:
            columns += (BAD_RECORD,)
        return columns

    @cached_property
    def body_schema(self) -> BodyFormat | None:
        """The schema of the bodies, read once; None without one. Raises RegistryError too."""
        given = [name for name in _BODY_OPTIONS if self.text(name)]
        if not given:
            return None
        for name in ("bodyFormat", "bodySchema"):
            if not self.text(name):
                raise UsageError(
                    f"option {given[0]} is for bodies with a schema: give {name} too, such as bodyFormat avro and "
                    "bodySchema orders.avsc"
                )
        kind = self._choice("bodyFormat", FORMATS, "json")
        if self.text("bodyMessage") and kind != "protobuf":
            raise UsageError(f"option bodyMessage is for bodyFormat protobuf, not for {kind}: leave it out")
        from pymq.spark.source.body_schemas import body_format

        topics = [name.strip() for name in (self.text("topics") or self.text("path")).split(",") if name.strip()]
        on_bad = self._choice("onBadRecord", ON_BAD_RECORD, "fail")
        return body_format(
            kind, self.text("bodySchema"), topics, self.text("registry"), self.text("bodyMessage"), on_bad
        )
