"""The log of an export's output, by its format: a directory's own, or that of a table whose library owns the format."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pymq.errors import UsageError
from pymq.packages import pip_install
from pymq.spark.export.options import TABLES, UPSERT, ExportOptions
from pymq.spark.lake.parquet_parts import Layout
from pymq.spark.places.places import Place, expanded
from pymq.spark.planning.identity import Mark, latest_generations
from pymq.spark.planning.ranges import QueueKey
from pymq.spark.records.schema import BODY, arrow_schema, check_columns
from pymq.spark.tables.table_settings import check_later_settings

if TYPE_CHECKING:
    import pyarrow as pa


class ExportLog(Protocol):
    """What an export needs of its output. Close it, or use it in a ``with``."""

    settings: dict[str, Any]
    layout: Layout

    @property
    def output(self) -> Place:
        """Where the output is, for people."""
        ...

    @property
    def resumed(self) -> bool:
        """True when this run or an earlier one has committed."""
        ...

    @property
    def positions(self) -> dict[QueueKey, int]:
        """The committed end offset of each queue."""
        ...

    @property
    def marks(self) -> dict[QueueKey, Mark]:
        """The latest mark of each queue that has one."""
        ...

    def new_staging(self, name: str) -> Place:
        """Create a directory for the results of a round's tasks."""
        ...

    def commit(self, parts: Sequence[dict[str, Any]], marks: Sequence[Mark] = ()) -> int:
        """Make the files of these ranges part of the output, with the ends of the ranges, in one step."""
        ...

    def tidy(self, *, compact: bool, keep_days: float) -> None:
        """Merge small files if asked to, and take out the days that ended longer ago unless ``keep_days`` is 0."""
        ...

    def __enter__(self) -> ExportLog: ...

    def __exit__(self, *_: object) -> None: ...


def open_log(options: ExportOptions, settings: dict[str, Any], body_type: pa.DataType) -> ExportLog:
    """Open the output with these settings; ``body`` has this type. Raises ResumeError, UsageError, OutputBusyError."""
    if options.format == "delta":
        with _extra("delta"):
            from pymq.spark.tables.delta_log import DeltaLog
            from pymq.spark.tables.delta_upserts import DeltaUpserts
        made = DeltaUpserts if settings.get("mode") == UPSERT else DeltaLog
        return made(_place(options), settings, _schema(settings["columns"], body_type))
    if options.format == "iceberg":
        with _extra("iceberg"):
            from pymq.spark.tables.iceberg_log import IcebergLog, columns_of
        columns = columns_of(settings["columns"], settings["partition_by"])
        return IcebergLog(options.iceberg, settings, _schema(columns, body_type))
    from pymq.spark.lake.commits import ExportDirectory

    return ExportDirectory(_directory(options), settings)


def open_to_look(options: ExportOptions, settings: dict[str, Any], body_type: pa.DataType) -> ExportLog:
    """Open the output of an earlier export without a change. Raises what :func:`open_log` raises."""
    if options.format not in TABLES:
        return open_log(options, settings, body_type)
    before = earlier_settings(options)
    check_later_settings(str(options.output), before, settings)
    return open_log(options, before, body_type)


def earlier_settings(options: ExportOptions) -> dict[str, Any]:
    """Return the settings of the export that the output holds; none if it holds none."""
    if options.format == "delta":
        with _extra("delta"):
            from pymq.spark.tables import delta_log
        return delta_log.earlier_settings(_place(options))
    if options.format == "iceberg":
        with _extra("iceberg"):
            from pymq.spark.tables import iceberg_log
        return iceberg_log.earlier_settings(options.iceberg)
    from pymq.spark.lake import commits

    return commits.earlier_settings(_directory(options))


def table_ends(
    topic: str,
    table_format: str,
    output: str | None = None,
    *,
    catalog: str | None = None,
    table: str | None = None,
) -> str:
    """Return where a table of an export ends, as JSON for the option ``startingOffsets`` of a read of the topic.

    ``table_format``, ``output``, ``catalog`` and ``table`` are those of ``pymq spark-export``. A topic that was made
    again ends where its latest generation does. Raises UsageError for a table of no export.
    """
    place = None if output is None else expanded(output)
    options = ExportOptions(output=place, format=table_format, catalog=catalog, table=table)
    if table_format not in TABLES:
        raise UsageError(f"format {table_format!r} is no table: use one of {', '.join(TABLES)}")
    options.check()
    if table_format == "delta":
        with _extra("delta"):
            from pymq.spark.tables import delta_log
        positions = delta_log.positions(_place(options))
    else:
        with _extra("iceberg"):
            from pymq.spark.tables import iceberg_log
        positions = iceberg_log.positions(options.iceberg)
    brokers: dict[str, dict[str, int]] = {}
    for (name, broker_name, queue_id), key in latest_generations(positions).items():
        if name == topic:
            brokers.setdefault(broker_name, {})[str(queue_id)] = positions[key]
    return json.dumps({topic: brokers})


def _place(options: ExportOptions) -> Place:
    assert options.output is not None  # check() asks for it
    return options.output.absolute()


def _directory(options: ExportOptions) -> Path:
    place = _place(options)
    assert isinstance(place, Path)  # check() refuses others
    return place


def _schema(names: Sequence[str], body_type: pa.DataType) -> pa.Schema:
    columns = check_columns(names)
    schema = arrow_schema(columns)
    if BODY not in columns:
        return schema
    return schema.set(columns.index(BODY), schema.field(BODY).with_type(body_type))


@contextmanager
def _extra(name: str) -> Iterator[None]:
    """Name the extra that a format needs when its library is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise UsageError(f"--format {name} needs {error.name}: {pip_install(name)}") from error
