"""``pymq spark-sql``: SQL over topics, store directories and lakes, by :mod:`pymq.spark.queries`."""

from __future__ import annotations

import base64
import sys
import threading
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pymq.cli.common.options import DEFAULT_NAMESRV, NamesrvOption, credentials_reference, parse_pairs, split_addresses
from pymq.cli.declared import examples, new_app
from pymq.cli.output import Column, OutputFormat, print_line, print_listing, print_note, progress
from pymq.cli.spark.options import (
    ConfOption,
    DriverMemoryOption,
    MasterOption,
    prepare_spark,
)
from pymq.cli.spark.store_place import (
    BrokerNameOption,
    CommitLogOption,
    StoreOption,
    WhileRunningOption,
    store_place,
)
from pymq.errors import UnreachableError, UsageError
from pymq.packages import pip_install
from pymq.spark.session.masters import DEFAULT_DRIVER_MEMORY, DEFAULT_MASTER
from pymq.units import format_count

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from pymq.spark.catalog import TopicTables
    from pymq.spark.queries import Query

app = new_app()

ROWS_SHOWN_MAX = 1000
LOOK_EVERY_S = 10.0


class QueryOutput(StrEnum):
    """The formats of ``pymq spark-sql``."""

    table = "table"
    json = "json"
    csv = "csv"
    parquet = "parquet"


@app.command(
    epilog=examples(
        'pymq spark-sql "select tags, count(*) from orders group by tags"',
        "pymq spark-sql \"select keys, bodyText from orders where property_country = 'DE'\" -o json",
        'pymq spark-sql "select count(*) from orders" --store /var/lib/pymq/broker-a',
        "pymq spark-sql \"select * from orders where dt = '2026-01-31'\" --lake ./lake -o parquet --out day.parquet",
        "pymq spark-sql \"select body from orders where tags = 'A'\" --explain",
        'pymq spark-sql --catalog "show tables"',
        "pymq spark-sql --thrift-port 10000",
    )
)
def spark_sql(
    query: Annotated[
        str | None, typer.Argument(metavar="SQL", help="A query; its tables are topics.", show_default=False)
    ] = None,
    lakes: Annotated[
        list[str] | None,
        typer.Option("--lake", metavar="DIR", help="Output of spark-export: its topics are tables; repeatable."),
    ] = None,
    output: Annotated[QueryOutput, typer.Option("--output", "-o", help="Output format.")] = QueryOutput.table,
    target: Annotated[
        str | None, typer.Option("--out", metavar="FILE", help="Write to this file; required for parquet.")
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show what would be read, and Spark's plan.")] = False,
    store: StoreOption = None,
    commit_log: CommitLogOption = None,
    broker_name: BrokerNameOption = None,
    while_running: WhileRunningOption = False,
    registry: Annotated[
        str | None,
        typer.Option("--registry", metavar="URL", help="Schema registry for the column bodyJson."),
    ] = None,
    catalog: Annotated[
        bool, typer.Option("--catalog", help="Make a table of each topic first: SHOW TABLES and DESCRIBE see them.")
    ] = False,
    thrift_port: Annotated[
        int | None,
        typer.Option(
            "--thrift-port",
            metavar="PORT",
            min=1,
            max=65535,
            help="Serve these tables by JDBC on this machine until Ctrl-C: for BI tools and dbt.",
        ),
    ] = None,
    master: MasterOption = DEFAULT_MASTER,
    conf: ConfOption = None,
    driver_memory: DriverMemoryOption = DEFAULT_DRIVER_MEMORY,
    namesrv: NamesrvOption = DEFAULT_NAMESRV,
) -> None:
    """Query topics with SQL. Only the columns and messages that the query needs are read. Needs the spark extra.

    The SQL is Spark's own, so every query starts Spark, which takes seconds. Without it: pymq tail -o jsonl, and
    pymq spark-export, which writes small topics itself, for any reader of Parquet.
    """
    if (query is None) == (thrift_port is None):
        raise UsageError("give one of SQL and --thrift-port")
    if (catalog or thrift_port is not None) and (explain or lakes):
        raise UsageError("--catalog and --thrift-port have tables of topics only: leave out --lake and --explain")
    if output is QueryOutput.parquet and target is None and query is not None and not explain:
        raise UsageError("-o parquet needs a file: give --out FILE")
    if output is QueryOutput.table and target is not None:
        raise UsageError("--out is for json, csv and parquet: give -o too")
    place = store_place(store, commit_log, broker_name, while_running=while_running)
    try:
        from pymq.spark.catalog import HOST, TopicTables, thrift_settings
        from pymq.spark.places.directories import local_directory
        from pymq.spark.queries import Query, Tables
        from pymq.spark.session import gateway
        from pymq.spark.session.masters import check_driver_memory, check_master
        from pymq.spark.session.shipping import prepare_executors
    except ModuleNotFoundError as error:
        raise UsageError(f"spark-sql needs {error.name}: {pip_install('spark')}") from error
    servers = ";".join(split_addresses(namesrv))
    tables = Tables(
        servers,
        credentials_reference.get(),
        place,
        tuple(local_directory("--lake", lake) for lake in lakes or ()),
        registry=registry or "",
    )
    prepare_spark()
    settings = {"spark.driver.memory": driver_memory, **parse_pairs(conf or (), "--conf")}
    check_master(master)
    check_driver_memory(settings["spark.driver.memory"])
    if thrift_port is not None:
        settings |= thrift_settings(thrift_port)
    with gateway.running(master, settings) as spark:
        prepare_executors(spark)
        if query is None:
            serve(spark, TopicTables(spark, tables), f"jdbc:hive2://{HOST}:{thrift_port}")
            return
        if catalog:
            topics = TopicTables(spark, tables)
            topics.refresh()
            show_rows(topics.run(query), output, target)
            return
        with Query(spark, tables, query) as found:
            if explain:
                show_plan(found)
                return
            with progress("querying", None):
                rows = found.run()
        show_rows(rows, output, target)


def serve(spark: SparkSession, topics: TopicTables, address: str) -> None:
    """Serve the tables of the topics until Ctrl-C, and look for new topics. Raises SparkStartError when Spark ends."""
    from pymq.spark.catalog import start_thrift
    from pymq.spark.session import gateway
    from pymq.spark.session.interruptible import run_interruptibly

    def look() -> int | None:
        try:
            return topics.refresh()
        except UnreachableError:
            return None  # the tables stay

    try:
        count = topics.refresh()
        start_thrift(spark)
        print_note(f"pymq: {address} has {format_count(count, 'topic')} as tables; Ctrl-C ends it")
        while not threading.Event().wait(LOOK_EVERY_S):
            if (death := gateway.death()) is not None:
                raise death
            run_interruptibly(look, spark.sparkContext.cancelAllJobs)
    except KeyboardInterrupt:
        print_note("pymq: stopped")


def show_plan(query: Query) -> None:
    """Print the tables of a query with what is read of them, and Spark's plan."""
    records = [
        {
            "table": use.name,
            "from": use.source,
            "columns": ", ".join(use.columns) or "(Spark chooses)",
            "where": " and ".join(use.conditions),
        }
        for use in query.uses
    ]
    for record in records:
        for name, value in record.items():
            print_line(f"{name.ljust(8)} {value}")
        print_line()
    print_line(query.plan().rstrip())


def show_rows(rows: pa.Table, output: QueryOutput, target: str | None) -> None:
    """Print the rows, or write them to a file. Raises UsageError for a file that can't be written."""
    names = _distinct(rows.column_names)
    rows = rows.rename_columns(names)
    try:
        if output is QueryOutput.parquet:
            from pyarrow import parquet

            parquet.write_table(rows, target, compression="zstd")
        elif target is None:
            _print(rows, output)
        else:
            with Path(target).open("w", encoding="utf-8", newline="") as file:
                _write(rows, output, file)
    except OSError as error:
        raise UsageError(f"{target} can't be written: {error.strerror or error}") from error
    if target is not None:
        print_note(f"pymq: {format_count(rows.num_rows, 'row')} in {target}")


def _print(rows: pa.Table, output: QueryOutput) -> None:
    if output is not QueryOutput.table:
        _write(rows, output, sys.stdout)
        return
    records = [_texts(row) for row in rows.slice(0, ROWS_SHOWN_MAX).to_pylist(maps_as_pydicts="lossy")]
    columns = [Column(name, name, right=_is_number(rows.schema.field(name).type)) for name in rows.column_names]
    print_listing(records, columns, OutputFormat.table, "no rows")
    if rows.num_rows > ROWS_SHOWN_MAX:
        print_note(f"pymq: {ROWS_SHOWN_MAX} of {rows.num_rows} rows: add a LIMIT, or write all with -o csv --out FILE")


def _write(rows: pa.Table, output: QueryOutput, file: Any) -> None:
    import csv
    import json

    if output is QueryOutput.json:
        records = (_texts(row) for batch in rows.to_batches() for row in batch.to_pylist(maps_as_pydicts="lossy"))
        file.write("[")
        for number, record in enumerate(records):
            file.write((",\n " if number else "\n ") + json.dumps(record, ensure_ascii=file is sys.stdout))
        file.write("\n]\n")
        return
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(rows.column_names)
    for batch in rows.to_batches():
        for row in batch.to_pylist(maps_as_pydicts="lossy"):
            texts = _texts(row).values()
            writer.writerow([json.dumps(one) if isinstance(one, dict | list) else one for one in texts])


def _texts(row: dict[str, Any]) -> dict[str, Any]:
    return {name: _plain(value) for name, value in row.items()}


def _plain(value: Any) -> Any:
    """Return a value for JSON: bytes as text, or in base64 if they are not UTF-8, and times in ISO form."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return base64.b64encode(value).decode()
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _is_number(kind: pa.DataType) -> bool:
    from pyarrow import types

    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def _distinct(names: list[str]) -> list[str]:
    """Return the names with a number where one came before: ``n``, ``n_2``."""
    found: list[str] = []
    for name in names:
        number, own = 1, name
        while own in found:
            number += 1
            own = f"{name}_{number}"
        found.append(own)
    return found
