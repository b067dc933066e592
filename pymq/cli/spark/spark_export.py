"""``pymq spark-export``: exports topics to files with Spark, by :mod:`pymq.spark.export.export`."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from pymq.cli.common.filter_option import ExpressionOption, PluginOption, SqlOption, ViaOption
from pymq.cli.common.live import live
from pymq.cli.common.options import (
    DEFAULT_NAMESRV,
    InflateRatioOption,
    NamesrvOption,
    credentials_reference,
    parse_pairs,
    split_addresses,
)
from pymq.cli.declared import examples, new_app
from pymq.cli.output import Column, OutputFormat, print_json, print_line, print_listing, print_note
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
from pymq.errors import UsageError
from pymq.model.compression import INFLATION_RATIO_MAX
from pymq.operations.filters import check_sql, parse_plugin
from pymq.packages import pip_install
from pymq.spark.session.masters import DEFAULT_DRIVER_MEMORY, DEFAULT_MASTER
from pymq.units import MS_PER_DAY, format_count, parse_duration_ms

if TYPE_CHECKING:
    from pymq.spark.export.options import ExportSummary

app = new_app()


@app.command(
    epilog=examples(
        "pymq spark-export                              (all topics of applications, to a new directory)",
        "pymq spark-export -t orders -t 'audit-*' --output ./lake",
        "pymq spark-export -t orders --from -2h --format json --json",
        "pymq spark-export -t orders --sql \"amount > 100 AND country = 'DE'\"",
        "pymq spark-export -t orders --filter 'jsonpath:$.items[?@.price > 5]'",
        "pymq spark-export -t orders --output ./lake --follow --every 60",
        "pymq spark-export -t orders --format delta --output ./table --compact --keep 30d",
        "pymq spark-export -t prices --format delta --mode upsert --output ./latest",
        "pymq spark-export -t orders --format iceberg --catalog prod --table shop.orders",
        "pymq spark-export -t orders --body json --body-schema 'amount double, country string'",
        "pymq spark-export --store /var/lib/pymq/broker-a --output ./lake     (no broker runs)",
        "pymq spark-export -t orders --columns topic,queueOffset,body --dry-run",
    )
)
def spark_export(
    topics: Annotated[
        list[str] | None,
        typer.Option(
            "--topic", "-t", metavar="NAME|GLOB", help="Topics to export; repeatable.", autocompletion=live("topic")
        ),
    ] = None,
    start: Annotated[
        str, typer.Option("--from", metavar="WHERE", help="earliest, latest, -2h, a time, group:NAME, or JSON offsets.")
    ] = "earliest",
    end: Annotated[
        str,
        typer.Option(
            "--to", metavar="WHERE", help="End of the range, in the forms of --from; excludes later messages."
        ),
    ] = "latest",
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "--out", metavar="DIR", help="Directory; the same one again continues where it ended."
        ),
    ] = None,
    file_format: Annotated[
        str, typer.Option("--format", metavar="NAME", help="parquet, delta, iceberg, json, csv or orc.")
    ] = "parquet",
    catalog: Annotated[
        str | None,
        typer.Option(
            "--catalog", metavar="NAME", help="Iceberg: a catalog of pyiceberg's settings; else SQLite in DIR."
        ),
    ] = None,
    table: Annotated[
        str | None, typer.Option("--table", metavar="SPACE.NAME", help="Iceberg: the table, else pymq.messages.")
    ] = None,
    mode: Annotated[
        str, typer.Option("--mode", metavar="append|upsert", help="upsert: the latest message of each key (delta).")
    ] = "append",
    key: Annotated[
        str, typer.Option("--key", metavar="COLUMN", help="The column that is the key, of upsert.")
    ] = "keys",
    writer: Annotated[
        str | None,
        typer.Option("--writer", metavar="arrow|spark", help="arrow: Parquet, exactly once; spark: any format."),
    ] = None,
    columns: Annotated[str | None, typer.Option("--columns", metavar="A,B,…", help="Only these columns.")] = None,
    partition_by: Annotated[
        str | None,
        typer.Option("--partition-by", metavar="A,B", help="Directory levels: topic, date, hour; '' for none."),
    ] = None,
    compression: Annotated[
        str, typer.Option("--compression", metavar="KIND", help="zstd, snappy, gzip, lz4 or none; zstd:1 with a level.")
    ] = "zstd",
    tag: Annotated[str, typer.Option("--tag", metavar="TAGS", help="Only these tags: 'A || B'.")] = "*",
    sql: SqlOption = None,
    plugin: PluginOption = None,
    expression: ExpressionOption = None,
    via: ViaOption = None,
    on_error: Annotated[
        str, typer.Option("--on-error", metavar="skip|deliver|stop", help="For messages that --filter fails on.")
    ] = "skip",
    max_rows: Annotated[
        int, typer.Option("--max-rows", metavar="N", min=0, help="Stop after about N rows; 0: no limit.")
    ] = 0,
    rows_per_task: Annotated[
        int, typer.Option("--rows-per-task", metavar="N", min=0, help="Most rows of a task; 0: by rows and cores.")
    ] = 0,
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on with new messages, topics and queues until Ctrl-C.")
    ] = False,
    every: Annotated[
        float, typer.Option("--every", metavar="SECONDS", help="Time between two looks for new messages.")
    ] = 10.0,
    compact: Annotated[
        bool, typer.Option("--compact", help="Merge a table's small files while exporting (delta, iceberg).")
    ] = False,
    keep: Annotated[
        str | None,
        typer.Option("--keep", metavar="AGE", help="Take days that ended longer ago out of a table: 30d."),
    ] = None,
    master: MasterOption = DEFAULT_MASTER,
    conf: ConfOption = None,
    driver_memory: DriverMemoryOption = DEFAULT_DRIVER_MEMORY,
    body: Annotated[
        str,
        typer.Option(
            "--body", metavar="FORM", help="Column body as bytes, utf8 (text), or fields: json, avro, protobuf."
        ),
    ] = "bytes",
    body_schema: Annotated[
        str | None,
        typer.Option(
            "--body-schema", metavar="SCHEMA", help="json: 'amount double'; avro, protobuf: FILE or registry."
        ),
    ] = None,
    body_message: Annotated[
        str, typer.Option("--body-message", metavar="TYPE", help="Protobuf's message type: shop.Order.")
    ] = "",
    registry: Annotated[
        str, typer.Option("--registry", metavar="URL", help="The registry of --body-schema registry:SUBJECT.")
    ] = "",
    bad_records: Annotated[
        str,
        typer.Option(
            "--bad-records", metavar="fail|null|table", help="When a body is not of its Avro or Protobuf schema."
        ),
    ] = "fail",
    body_errors: Annotated[
        str,
        typer.Option("--body-errors", metavar="fail|replace", help="When a body is not UTF-8 or not of its schema."),
    ] = "fail",
    on_data_loss: Annotated[
        str, typer.Option("--on-data-loss", metavar="fail|report", help="When offsets are no longer stored.")
    ] = "fail",
    retry_for: Annotated[
        float | None,
        typer.Option("--retry-for", metavar="SECONDS", min=0, help="Time without an answer before it fails: 60."),
    ] = None,
    inflate_ratio: InflateRatioOption = INFLATION_RATIO_MAX,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as one JSON object.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", "--plan", help="Only show what would be read.")] = False,
    store: StoreOption = None,
    commit_log: CommitLogOption = None,
    broker_name: BrokerNameOption = None,
    while_running: WhileRunningOption = False,
    namesrv: NamesrvOption = DEFAULT_NAMESRV,
) -> None:
    """Export topics to Parquet, a Delta or Iceberg table, JSON, CSV or ORC. Needs the spark extra."""
    chosen = parse_plugin(plugin, expression, via)
    if sql is not None:
        check_sql(sql, print_note)
    from pymq.spark.export.options import ExportOptions
    from pymq.spark.places.places import place_of
    from pymq.spark.records.schema import parse_columns

    options = ExportOptions(
        namesrv=";".join(split_addresses(namesrv)),
        credentials=credentials_reference.get(),
        store=store_place(store, commit_log, broker_name, while_running=while_running),
        topics=tuple(topics or ()),
        start=start,
        end=end,
        output=None if output is None and (dry_run or catalog) else place_of(output or _new_directory()),
        format=file_format,
        writer=writer,
        catalog=catalog,
        table=table,
        mode=mode,
        key=key,
        columns=tuple(parse_columns(columns or "")),
        compression=compression,
        tag=tag,
        sql=sql,
        filter_on_error=on_error,
        max_rows=max_rows,
        rows_per_task=rows_per_task,
        master=master,
        conf=parse_pairs(conf or (), "--conf"),
        driver_memory=driver_memory,
        inflation_ratio_max=inflate_ratio,
        body=body,
        body_schema=body_schema,
        body_message=body_message,
        registry=registry,
        bad_records=bad_records,  # type: ignore[arg-type]  # check() refuses other words
        body_errors=body_errors,  # type: ignore[arg-type]  # check() refuses other words
        on_data_loss=on_data_loss,  # type: ignore[arg-type]  # check() refuses other words
        dry_run=dry_run,
        follow=follow,
        follow_every_s=every,
        compact=compact,
        keep_days=_parse_keep(keep),
    )
    if chosen is not None:
        options.filter, options.filter_expression, options.filter_via = chosen
    if retry_for is not None:
        options.retry_budget_s = retry_for
    if mode == "upsert":
        options.partition_by = ("topic",)
    if partition_by is not None:
        options.partition_by = tuple("dt" if word == "date" else word for word in _words(partition_by))
    options.check()
    try:
        from pymq.spark.export.export import run
    except ModuleNotFoundError as error:
        raise UsageError(f"spark-export needs {error.name}: {pip_install('spark')}") from error

    prepare_spark()
    from pymq.cli.spark.view import export_progress

    with export_progress(follows=follow) as progress:
        summary = run(options, progress)
    if as_json:
        print_json(summary.to_dict())
    else:
        _print_summary(summary)


def _words(text: str | None) -> tuple[str, ...]:
    return tuple(word.strip() for word in (text or "").split(",") if word.strip())


def _parse_keep(text: str | None) -> float:
    """Return days; 0 keeps all."""
    return 0.0 if text is None else parse_duration_ms(text) / MS_PER_DAY


def _new_directory() -> str:
    return f"pymq-export-{datetime.now().astimezone().strftime('%Y%m%d-%H%M%S')}"


def _print_summary(summary: ExportSummary) -> None:
    records = [
        {
            "topic": queue.topic,
            "queue": f"{queue.broker_name}/{queue.queue_id}",
            "from": queue.from_offset,
            "to": queue.to_offset,
            "rows": queue.to_offset - queue.from_offset if queue.rows is None else queue.rows,
            "lost": queue.lost,
        }
        for queue in summary.queues
    ]
    columns = [Column("topic"), Column("queue"), *(Column(name, right=True) for name in ("from", "to", "rows"))]
    if summary.lost:
        columns.append(Column("lost", right=True))
    print_listing(records, columns, OutputFormat.table, "nothing to export: the topics hold no messages in that range")
    if summary.dry_run:
        print_line(
            f"would export {format_count(summary.planned_rows, 'row')} in {format_count(summary.tasks, 'task')} as "
            f"{summary.format}"
        )
        return
    resumed = "; continued an earlier run" if summary.resumed else ""
    print_line(
        f"exported {format_count(summary.rows, 'row')} to {summary.output} as {summary.format}: "
        f"{format_count(summary.files, 'file')}, "
        f"{summary.elapsed_s:.1f} s ({summary.rows_per_s:,.0f} rows/s){resumed}"
    )
    if summary.filter_errors:
        print_note(f"pymq: warning: the filter failed on {summary.filter_errors} messages (see --on-error)")
    if summary.lost:
        print_note(f"pymq: warning: {summary.lost} offsets were no longer stored")
