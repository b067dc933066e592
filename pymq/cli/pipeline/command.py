"""``pymq pipeline``: checks, shows and runs the file of a pipeline, by :mod:`pymq.pipeline`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pymq.cli.common.serving_metrics import MetricsPortOption, metrics_place_of_command
from pymq.cli.common.shared_options import TimeoutOption
from pymq.cli.declared import examples, new_app
from pymq.cli.output import Column, OutputFormat, print_json, print_line, print_listing, print_note
from pymq.cli.spark.options import prepare_spark
from pymq.errors import UsageError
from pymq.packages import pip_install

if TYPE_CHECKING:
    from pymq.pipeline.job import Job
    from pymq.pipeline.load import PipelineFile
    from pymq.pipeline.report import History

METRICS_HOST = "127.0.0.1"
REPORT = "report.html"
app = new_app("Check, show and run pipelines: a TOML file says what to read, compute and write.")
FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="The pipeline's TOML file.")]
NamesrvOverride = Annotated[
    str | None, typer.Option("--namesrv", metavar="HOST:PORT;…", help="Name servers, in place of the file's.")
]
MasterOverride = Annotated[
    str | None, typer.Option("--master", metavar="URL", help="Spark master, in place of the file's.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@app.callback()
def pipeline() -> None:
    """Check, show and run pipelines."""


@app.command(epilog=examples("pymq pipeline check sessions.toml", "pymq pipeline check sessions.toml --json"))
def check(path: FileArgument, as_json: JsonOption = False) -> None:
    """Check a file without Spark: its keys, names, and which step reads what."""
    file = _read(path)
    described = file.pipeline
    counted = {"sources": len(described.source), "steps": len(described.step), "sinks": len(described.sink)}
    if as_json:
        print_json({"name": described.name, **counted})
    else:
        counts = ", ".join(f"{kind}: {count}" for kind, count in counted.items())
        print_line(f"{path} is right. {counts}. Columns are checked by: pymq pipeline plan {path}")


@app.command(epilog=examples("pymq pipeline plan sessions.toml", "pymq pipeline plan sessions.toml --json"))
def plan(
    path: FileArgument,
    namesrv: NamesrvOverride = None,
    master: MasterOverride = None,
    as_json: JsonOption = False,
    timeout: TimeoutOption = None,
) -> None:
    """Have Spark check queries and columns, and show the tables; nothing is read or written."""
    with _opened(_read(path, namesrv, master)) as job:
        records = [
            {
                "table": table.name,
                "kind": "stream" if table.is_stream else "fixed",
                "columns": ", ".join(f"{name} {kind}" for name, kind in table.columns),
            }
            for table in job.tables()
        ]
        sinks = [
            {"sink": sink.label, "from": sink.table, "to": _place(sink), "mode": sink.mode}
            for sink in job.pipeline.sink
        ]
    if as_json:
        print_json({"tables": records, "sinks": sinks})
        return
    print_listing(records, [Column("table"), Column("kind"), Column("columns")], OutputFormat.table, "")
    print_line("")
    print_listing(sinks, [Column(name) for name in ("sink", "from", "to", "mode")], OutputFormat.table, "")


@app.command(
    epilog=examples(
        "pymq pipeline run sessions.toml                     (until Ctrl-C, or as the file's trigger says)",
        "pymq pipeline run sessions.toml --once --report sessions.html",
    )
)
def run(
    path: FileArgument,
    once: Annotated[
        bool, typer.Option("--once", help="Write what is there, then end: trigger 'available-now'.")
    ] = False,
    namesrv: NamesrvOverride = None,
    master: MasterOverride = None,
    report: Annotated[
        Path | None,
        typer.Option(
            "--report",
            metavar="FILE",
            help="Where to write the HTML page with charts at the end (report.html in the checkpoint).",
        ),
    ] = None,
    metrics_port: MetricsPortOption = None,
    as_json: JsonOption = False,
    timeout: TimeoutOption = None,
) -> None:
    """Run a pipeline. Ctrl-C ends it; the next run continues at its checkpoints."""
    from pymq.cli.pipeline.view import watching
    from pymq.pipeline.checkpoints import directory_of
    from pymq.pipeline.report import History, write_report

    file = _read(path, namesrv, master, once=once)
    name, history = file.pipeline.name, History()
    try:
        with _measured(name, history, metrics_port), _opened(file) as job, watching(name, history) as watch:
            job.run(watch, lambda why: print_note(f"pymq: trying again: {why}"))
    except KeyboardInterrupt:
        print_note("pymq: stopped: the same command continues at the checkpoints")
    finally:
        place = report or directory_of(file.pipeline) / REPORT
        if report is not None or history.sinks():
            write_report(place, name, history)
            print_note(f"pymq: report in {place}")
    _print_summary(file, history, as_json)


def _read(path: Path, namesrv: str | None = None, master: str | None = None, *, once: bool = False) -> PipelineFile:
    from pymq.pipeline.load import read_pipeline

    file = read_pipeline(path)
    from pymq.pipeline.model import AVAILABLE_NOW

    given: dict[str, Any] = {"namesrv": namesrv, "master": master, "trigger": AVAILABLE_NOW if once else None}
    return file.changed({name: value for name, value in given.items() if value is not None})


@contextmanager
def _measured(name: str, history: History, port: int | None) -> Iterator[None]:
    """Serve metrics while the block runs, if a port is given. Raises UsageError for one that can't be used."""
    place = metrics_place_of_command(METRICS_HOST, port)
    if place is None:
        yield
        return
    from pymq.client.loop_thread import shared
    from pymq.metrics.endpoint import MetricsEndpoint
    from pymq.pipeline.metrics import PipelineMetrics

    figures = PipelineMetrics(name, history)
    endpoint = MetricsEndpoint(figures.collectors, figures.labels, place.access())
    address = shared.call(endpoint.start(place.host, place.port))
    try:
        print_note(f"pymq: metrics on {place.scheme}://{address}/metrics")
        yield
    finally:
        shared.call(endpoint.stop())


@contextmanager
def _opened(file: PipelineFile) -> Iterator[Job]:
    try:
        from pymq.pipeline.job import opened
    except ModuleNotFoundError as error:
        raise UsageError(f"pipelines need {error.name}: {pip_install('spark')}") from error

    prepare_spark()
    with opened(file) as job:
        yield job


def _place(sink: Any) -> str:
    return f"topic {sink.topic}" if sink.topic is not None else f"{sink.format} in {sink.path}"


def _print_summary(file: PipelineFile, history: History, as_json: bool) -> None:
    records = [
        {
            "sink": sink.label,
            "to": _place(sink),
            "batches": history.batches(sink.label),
            "rows_read": history.rows(sink.label),
            "behind": history.behind(sink.label),
        }
        for sink in file.pipeline.sink
    ]
    if as_json:
        print_json({"name": file.pipeline.name, "sinks": records})
        return
    columns = [Column("sink"), Column("to"), *(Column(name, right=True) for name in ("batches", "rows_read", "behind"))]
    print_listing(records, columns, OutputFormat.table, "")
