"""``pymq spark-import``: sends the rows of files to topics with Spark, by :mod:`pymq.spark.imports.imports`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from pymq.cli.common.live import live
from pymq.cli.common.options import (
    OutputOption,
    credentials_reference,
    parse_pairs,
    split_addresses,
)
from pymq.cli.common.session import Session
from pymq.cli.declared import examples, new_app
from pymq.cli.output import Column, OutputFormat, print_data, print_line, print_listing, print_note
from pymq.cli.spark.options import (
    ConfOption,
    DriverMemoryOption,
    MasterOption,
    prepare_spark,
)
from pymq.errors import UsageError
from pymq.packages import pip_install
from pymq.spark.session.masters import DEFAULT_DRIVER_MEMORY, DEFAULT_MASTER
from pymq.units import format_count

if TYPE_CHECKING:
    from pymq.spark.imports.imports import ImportSummary

app = new_app()


@app.command(
    epilog=examples(
        "pymq spark-import ./lake                                (an export's lake: each row to its topic again)",
        "pymq spark-import ./lake --topic orders-2 --rate 20000 --dry-run",
        "pymq spark-import orders.csv --format csv --option header=true --topic orders "
        "--column 'body=to_json(struct(*))' --column key=customer",
    )
)
def spark_import(
    session: Session,
    inputs: Annotated[list[str], typer.Argument(metavar="PATH...", help="Files and directories, in order of names.")],
    topic: Annotated[
        str,
        typer.Option(
            "--topic",
            "-t",
            metavar="NAME",
            help="For all rows; else each row's column topic.",
            autocompletion=live("topic"),
        ),
    ] = "",
    file_format: Annotated[
        str, typer.Option("--format", metavar="NAME", help="parquet, json, csv, orc, or another that Spark reads.")
    ] = "parquet",
    reader_options: Annotated[
        list[str] | None, typer.Option("--option", metavar="KEY=VALUE", help="For Spark's reader; repeatable.")
    ] = None,
    schema: Annotated[
        str, typer.Option("--schema", metavar="COLUMNS", help="'id bigint, name string'; else from the files.")
    ] = "",
    columns: Annotated[
        list[str] | None,
        typer.Option("--column", metavar="NAME=SQL", help="What a column of a message is made of; repeatable."),
    ] = None,
    keep_queues: Annotated[
        bool, typer.Option("--keep-queues", help="Send each row to the queue that it was exported from.")
    ] = False,
    rate: Annotated[int, typer.Option("--rate", metavar="N", min=0, help="Most rows a second; 0: no limit.")] = 0,
    rows_per_step: Annotated[
        int, typer.Option("--rows-per-step", metavar="N", min=1, help="Rows that a continued import may send again.")
    ] = 1_000_000,
    state: Annotated[
        str | None, typer.Option("--state", metavar="DIR", help="Notes what is done; the same one again continues.")
    ] = None,
    dead_letters: Annotated[
        str,
        typer.Option(
            "--dead-letters", metavar="DIR", help="For rows that are too large or have no body; else it fails."
        ),
    ] = "",
    master: MasterOption = DEFAULT_MASTER,
    conf: ConfOption = None,
    driver_memory: DriverMemoryOption = DEFAULT_DRIVER_MEMORY,
    retry_for: Annotated[
        float, typer.Option("--retry-for", metavar="SECONDS", min=0, help="Time without an answer before it fails.")
    ] = 60.0,
    dry_run: Annotated[bool, typer.Option("--dry-run", "--plan", help="Only show the steps.")] = False,
    output: OutputOption = OutputFormat.table,
) -> None:
    """Send the rows of Parquet, JSON, CSV or other files to topics. Needs the spark extra."""
    try:
        from pymq.spark.imports.imports import ImportOptions, run
        from pymq.spark.places.directories import local_directory
    except ModuleNotFoundError as error:
        raise UsageError(f"spark-import needs {error.name}: {pip_install('spark')}") from error

    options = ImportOptions(
        inputs=tuple(inputs),
        namesrv=";".join(split_addresses(session.namesrv)),
        credentials=credentials_reference.get(),
        topic=topic,
        format=file_format,
        reader_options=parse_pairs(reader_options or (), "--option"),
        schema=schema,
        columns=parse_pairs(columns or (), "--column"),
        keep_queues=keep_queues,
        rate_per_s=rate,
        rows_per_step=rows_per_step,
        state=local_directory("state directory", state) if state is not None else None,
        dead_letters=dead_letters,
        master=master,
        conf=parse_pairs(conf or (), "--conf"),
        driver_memory=driver_memory,
        retry_budget_s=retry_for,
        dry_run=dry_run,
    )
    prepare_spark()
    from pymq.cli.spark.view import export_progress

    with export_progress(follows=False) as progress:
        summary = run(options, progress)
    if not print_data(summary.to_dict(), output):
        _print_summary(summary)


def _print_summary(summary: ImportSummary) -> None:
    if summary.dry_run:
        records = [{"step": one["step"], "rows": one["rows"], **part} for one in summary.plan for part in one["parts"]]
        names = ("step", "file", "from_row", "to_row")
        print_listing(records, [Column(name, right=name != "file") for name in names], OutputFormat.table, "no rows")
        rows = "" if summary.planned_rows is None else f"{format_count(summary.planned_rows, 'row')} of "
        print_line(
            f"would import {rows}{format_count(summary.files, 'file')} in {format_count(summary.steps, 'step')}; "
            f"state: {summary.state}"
        )
        return
    columns = [Column("topic"), Column("rows", right=True), Column("stored", right=True)]
    records = [{"topic": one.topic, "rows": one.rows, "stored": one.stored} for one in summary.topics]
    print_listing(records, columns, OutputFormat.table, "the files hold no rows")
    resumed = "; continued an earlier run" if summary.resumed else ""
    print_line(
        f"imported {format_count(summary.rows, 'row')} of {format_count(summary.files, 'file')} in "
        f"{format_count(summary.steps_done, 'step')}, "
        f"{summary.elapsed_s:.1f} s{resumed}; state: {summary.state}"
    )
    if summary.dead_letters:
        print_note(f"pymq: warning: {summary.dead_letters} rows that no broker takes are in files: see --dead-letters")
    for one in summary.topics:
        if one.stored > one.rows:
            print_note(
                f"pymq: warning: {one.topic} has {one.stored - one.rows} messages more than were imported: sent by "
                "others, or twice after a failure; dropDuplicates leaves those out"
            )
        elif one.stored < one.rows:
            missing = one.rows - one.stored
            print_note(f"pymq: warning: {one.topic} has {missing} messages less than were imported: they are delayed")
