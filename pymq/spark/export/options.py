"""Options and summary of an export: plain data shared by the command and the export's logic."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pymq.errors import UsageError
from pymq.model.compression import INFLATION_RATIO_MAX
from pymq.spark.bodies.body_format import ON_BAD_RECORD, OnBadRecord
from pymq.spark.lake.compression import parse_compression
from pymq.spark.places.object_paths import ObjectPath
from pymq.spark.planning.selection import Selection
from pymq.spark.planning.store_place import StorePlace
from pymq.spark.records.schema import BAD_RECORD, USUAL
from pymq.spark.session.masters import DEFAULT_DRIVER_MEMORY, DEFAULT_MASTER, cores_of
from pymq.spark.settings import BODY_ERROR_MODES, DATA_LOSS_MODES, RETRY_BUDGET_S, BodyErrors, DataLoss, rows_of_a_task
from pymq.spark.tables.iceberg_name import IcebergName, iceberg_name

# Tables of open formats, whose logs their libraries keep.
TABLES = ("delta", "iceberg")
FORMATS = ("parquet", *TABLES, "json", "csv", "orc")
ARROW_FORMATS = ("parquet", *TABLES)
APPEND, UPSERT = MODES = ("append", "upsert")
# What upsert compares, and what takes a key's row away.
UPSERT_NEEDS = ("topic", "storeTimestamp", "queueOffset", "body")
WRITERS = ("arrow", "spark")
PARTITION_COLUMNS = ("topic", "dt")
# Levels of directories: UTC day and hour of the store time.
PARTITION_LEVELS = (*PARTITION_COLUMNS, "hour")

ROWS_PER_ROUND = 20_000_000
KEEP_DAYS_MAX = 36500
# The rows of a round are in the driver's memory while they are merged.
UPSERT_ROWS_PER_ROUND = 500_000


# Forms whose types a schema says: a file's, or a registry's.
SCHEMA_FORMS = ("avro", "protobuf")
BODY_FORMS = ("bytes", "utf8", "json", *SCHEMA_FORMS)


@dataclass(slots=True)
class ExportOptions:
    """All settings of one export.

    ``start`` and ``end`` take ``earliest``, ``latest``, a point in time (``-2h``, ISO text, epoch), ``group:NAME`` or
    offsets as JSON (``{"topic": {"broker": {"0": 17, "1": -2}}}``, -2 earliest, -1 latest).
    """

    namesrv: str = "127.0.0.1:9876"
    credentials: str = ""
    """A reference to what requests are signed with, ``env:PREFIX`` or ``file:PATH``; empty: PyMQ's variables."""
    store: StorePlace | None = None
    """The store directory to read instead of a cluster."""
    topics: tuple[str, ...] = ()
    """Names or globs; empty means all user topics."""
    start: str = "earliest"
    end: str = "latest"
    output: Path | ObjectPath | None = None
    """The directory, or the place in an object store, to write to; None only with ``dry_run``."""
    format: str = "parquet"
    writer: str | None = None
    """``arrow`` (tasks write Parquet, exactly once, can be continued) or ``spark``; None chooses by format."""
    catalog: str | None = None
    """The name of an Iceberg catalog in pyiceberg's settings; None: one of SQLite in the output directory."""
    table: str | None = None
    """The name of an Iceberg table, ``NAMESPACE.NAME``."""
    mode: str = APPEND
    """``append``, or ``upsert`` for the latest message of each key (Delta)."""
    key: str = "keys"
    """The column that is a message's key, of ``upsert``."""
    columns: tuple[str, ...] = ()
    """Columns by name; empty means the default ones."""
    partition_by: tuple[str, ...] = PARTITION_COLUMNS
    """Directory levels: ``topic``, ``dt`` (UTC day of the store time), ``hour`` (its UTC hour)."""
    compression: str = "zstd"
    """A codec, for zstd and gzip also with a level (arrow writer): ``zstd:1``."""
    tag: str = "*"
    """Tag expression (``A || B``); the broker compares hashes, and the reader compares the tags."""
    sql: str | None = None
    """SQL92 over properties, which the broker applies; excludes a tag expression."""
    filter: str | None = None
    """The name of an installed filter, with ``filter_expression``; the tasks or filter servers run it."""
    filter_expression: str | None = None
    filter_on_error: str = "skip"
    """The policy for messages that the filter fails on: skip, deliver or stop."""
    filter_via: str | None = None
    """``filter-server``: the broker's filter servers run the filter."""
    max_rows: int = 0
    """The approximate number of rows, 0 for no limit; the first queues are read first."""
    master: str = DEFAULT_MASTER
    conf: dict[str, str] = field(default_factory=dict)
    driver_memory: str = DEFAULT_DRIVER_MEMORY
    group: str = ""
    """The consumer group of the pulls; empty means a group that every broker has."""
    on_data_loss: DataLoss = "fail"
    inflation_ratio_max: int = INFLATION_RATIO_MAX
    """Most bytes that the bodies of a range may inflate to, as a multiple of their messages' size."""
    body_errors: BodyErrors = "fail"
    """What to do about a body that is not UTF-8 in a column of text: fail, or replace the wrong bytes by U+FFFD."""
    body: str = "bytes"
    """What the column ``body`` holds: ``bytes``, ``utf8`` or ``json``, a struct of ``body_schema``'s fields."""
    body_schema: str | None = None
    """``amount double, country string``; None infers it from the first messages of a first run."""
    body_message: str = ""
    """Protobuf's message type."""
    registry: str = ""
    """The URL of the registry that ``body_schema`` ``registry`` or ``registry:SUBJECT`` means."""
    bad_records: OnBadRecord = "fail"
    """What to do about a body that its Avro or Protobuf schema does not fit: fail, null, or a row of ``badRecord``."""
    retry_budget_s: float = RETRY_BUDGET_S
    """Seconds without progress, because no broker of a queue answers or all are busy, before the export fails."""
    rows_per_task: int = 0
    """Most rows of a task; 0 chooses by the number of rows and of the master's cores."""
    rows_per_round: int = ROWS_PER_ROUND
    """Rows between two commits of the arrow writer."""
    dry_run: bool = False
    follow: bool = False
    """Go on with what comes, until an interrupt (arrow writer)."""
    follow_every_s: float = 10.0
    """Seconds between two looks for new messages, topics and queues."""
    compact: bool = False
    """Merge small files (tables)."""
    keep_days: float = 0.0
    """Take days that ended longer ago out of a table; 0 keeps all."""

    @property
    def selection(self) -> Selection:
        """The selection of messages as given."""
        return Selection(
            tag=self.tag,
            sql=self.sql,
            filter=self.filter,
            expression=self.filter_expression,
            on_error=self.filter_on_error,
            via=self.filter_via,
        )

    @property
    def all_columns(self) -> tuple[str, ...]:
        """The columns of the output."""
        columns = self.columns or USUAL
        return (*columns, BAD_RECORD) if self.bad_records == "table" and BAD_RECORD not in columns else columns

    @property
    def filter_settings(self) -> dict[str, str]:
        """The given settings, besides the tag, that select messages."""
        given = {"sql": self.sql, "filter": self.filter, "filter_expression": self.filter_expression}
        if self.filter is not None:
            given["filter_on_error"] = self.filter_on_error
        return {name: value for name, value in given.items() if value is not None}

    @property
    def chosen_writer(self) -> str:
        return self.writer or ("arrow" if self.format in ARROW_FORMATS else "spark")

    @property
    def iceberg(self) -> IcebergName:
        """The name of the Iceberg table. Raises UsageError."""
        return iceberg_name(self.catalog, self.table, self.output)

    def _check_body(self) -> None:
        _check_choice("body", self.body, BODY_FORMS)
        _check_choice("bad-records", self.bad_records, ON_BAD_RECORD)
        if self.body in SCHEMA_FORMS:
            if self.body_schema is None:
                raise UsageError(f"bodies of {self.body} need a schema: give --body-schema FILE or registry:SUBJECT")
        elif self.registry or self.body_message or self.bad_records != "fail":
            raise UsageError(
                f"--registry, --body-message and --bad-records are for bodies of Avro or Protobuf, not {self.body}"
            )
        elif self.body_schema is not None:
            if self.body != "json":
                raise UsageError(f"a schema is for bodies of JSON, Avro or Protobuf, not {self.body}: use --body json")
            _check_schema(self.body_schema)
        if self.body == "bytes":
            return
        if self.columns and "body" not in self.columns:
            raise UsageError(f"--body {self.body} is for the column body, which --columns lacks: name it too")
        is_text = self.format in ("json", "csv") and self.body == "utf8" and not self.columns
        if self.chosen_writer != "arrow" and not is_text:
            raise UsageError(f"--body {self.body} is for the arrow writer: use --format parquet, delta or iceberg")

    def _check_store(self) -> None:
        if self.store is not None and self.follow:
            raise UsageError("a store directory is read once: leave out --follow, or name a broker's name server")
        if self.store is not None and self.filter_via is not None:
            raise UsageError("a store directory has no filter servers: leave out --via, and the tasks run the filter")

    def _check_object_store(self) -> None:
        if self.format not in TABLES:
            raise UsageError(
                f"output {self.output} is in an object store, where plain files can't be written exactly once: "
                "use --format delta or --format iceberg, or name a directory"
            )

    def _check_table(self) -> None:
        is_table = self.format in TABLES
        if (self.catalog or self.table) and self.format != "iceberg":
            raise UsageError(f"a catalog and a table's name are for --format iceberg, not {self.format}")
        if (self.compact or self.keep_days) and not is_table:
            raise UsageError(
                f"--compact and --keep are for tables, not {self.format}: use --format delta or --format iceberg"
            )
        if self.keep_days > KEEP_DAYS_MAX:
            raise UsageError(f"--keep is {self.keep_days:.0f} days: write at most {KEEP_DAYS_MAX}d, or leave it out")
        if self.keep_days < 0 or (self.keep_days and not {"dt", "hour"} & set(self.partition_by)):
            raise UsageError("--keep takes days out of a table: write 0d or more, with date in --partition-by")
        if self.keep_days and self.format == "delta" and "dt" not in self.partition_by:
            raise UsageError("--keep takes days out of a Delta table: use date in --partition-by")
        if self.format == "iceberg":
            _ = self.iceberg
        if self.mode == UPSERT:
            self._check_upsert()

    def _check_upsert(self) -> None:
        if self.format != "delta":
            raise UsageError(f"mode upsert is for Delta tables, not {self.format}: use --format delta")
        if self.partition_by != ("topic",):
            raise UsageError("mode upsert has one row for a key, of no day: use --partition-by topic")
        if self.body not in ("bytes", "utf8"):
            raise UsageError(
                "mode upsert takes an empty body for a deletion, so bodies stay as they are: use --body bytes or utf8"
            )
        columns = self.columns or USUAL
        if missing := [name for name in (self.key, *UPSERT_NEEDS) if name not in columns]:
            raise UsageError(f"mode upsert needs the column {missing[0]}: name it in --columns, too")

    def rows_of_a_task(self, planned_rows: int) -> int:
        """Return the most rows of a task: few enough that all cores have work until the end, else the given number."""
        return self.rows_per_task or rows_of_a_task(planned_rows, cores_of(self.master))

    def check(self) -> None:
        """Raise UsageError for an illegal value."""
        _check_choice("format", self.format, FORMATS)
        _check_choice("writer", self.chosen_writer, WRITERS)
        _, level = parse_compression(self.compression)
        if level is not None and self.chosen_writer != "arrow":
            raise UsageError(
                f"compression {self.compression!r} has a level, which only the arrow writer takes: leave it out"
            )
        _check_choice("on-data-loss", self.on_data_loss, DATA_LOSS_MODES)
        _check_choice("mode", self.mode, MODES)
        _check_choice("body-errors", self.body_errors, BODY_ERROR_MODES)
        for name in self.partition_by:
            _check_choice("partition column", name, PARTITION_LEVELS)
        if len(set(self.partition_by)) != len(self.partition_by):
            raise UsageError(
                f"partition columns {','.join(self.partition_by)} contain a duplicate: name each column once"
            )
        if (self.chosen_writer == "arrow") != (self.format in ARROW_FORMATS) and self.format != "parquet":
            known = "Parquet and tables only" if self.chosen_writer == "arrow" else "no tables"
            raise UsageError(f"the {self.chosen_writer} writer writes {known}, not {self.format}: leave out --writer")
        if self.follow and (self.chosen_writer != "arrow" or self.end != "latest" or self.max_rows):
            raise UsageError(
                "following writes Parquet or a table without an end: leave out --to, --max-rows, --writer and other "
                "formats"
            )
        self._check_table()
        if isinstance(self.output, ObjectPath):
            self._check_object_store()
        if not 0 < self.follow_every_s < float("inf"):
            raise UsageError(f"the time between two looks is {self.follow_every_s} s: write more than 0 seconds")
        self._check_store()
        self._check_body()
        if self.output is None and self.catalog is None and not self.dry_run:
            raise UsageError("no output directory is given: name one, or use a dry run")
        if self.rows_per_task < 0 or self.rows_per_round < 1 or self.max_rows < 0:
            raise UsageError("rows per round must be at least 1, rows per task and the row limit at least 0")


def _check_schema(text: str) -> None:
    from pymq.spark.records.bodies import parse_schema

    parse_schema(text)


def _check_choice(what: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise UsageError(f"{what} {value!r} is unknown: use one of {', '.join(known)}")


@dataclass(slots=True)
class QueueSummary:
    """One queue's part: offsets [from_offset, to_offset) and the number of rows written from them."""

    topic: str
    broker_name: str
    queue_id: int
    from_offset: int
    to_offset: int
    rows: int | None = None
    """Rows written; None if the writer doesn't count by queue (a dry run, or many queues with Spark's writer)."""
    lost: int = 0
    """Offsets of the range that the broker no longer had."""


@dataclass(slots=True)
class ExportSummary:
    """The results of an export, for people and for ``--json``."""

    output: str
    format: str
    writer: str
    rows: int
    planned_rows: int
    tasks: int
    files: int
    bytes_written: int
    lost: int
    filter_errors: int
    """Messages that the tasks' filter failed on (arrow writer)."""
    elapsed_s: float
    """Seconds from the first pull's round to the last commit, without planning and Spark's start."""
    start_s: float
    """Seconds for planning and the start of Spark."""
    java: str
    """The JVM that ran Spark and where it was found; empty when none was needed."""
    dry_run: bool
    resumed: bool
    """True when the export continued an earlier one in this directory."""
    queues: list[QueueSummary]

    @property
    def rows_per_s(self) -> float:
        return self.rows / self.elapsed_s if self.elapsed_s > 0 else 0.0

    @property
    def counts_by_topic(self) -> dict[str, int]:
        """Rows of every topic; planned rows for queues that were not counted."""
        counts: dict[str, int] = {}
        for queue in self.queues:
            rows = queue.to_offset - queue.from_offset if queue.rows is None else queue.rows
            counts[queue.topic] = counts.get(queue.topic, 0) + rows
        return counts

    def to_dict(self) -> dict[str, Any]:
        """Return a dict for JSON with all fields and ``rows_per_s``."""
        return {**asdict(self), "rows_per_s": round(self.rows_per_s, 1)}
