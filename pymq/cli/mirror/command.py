"""``pymq mirror``: copies topics from one cluster to another, without end or once."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pymq.cli.common.live import live
from pymq.cli.common.options import OutputOption, request_credentials
from pymq.cli.common.serving_metrics import MetricsPortOption, metrics_place_of_command, serving_metrics
from pymq.cli.common.session import Session
from pymq.cli.declared import examples, new_app
from pymq.cli.output import OutputFormat, print_data, print_line, print_note
from pymq.errors import UsageError
from pymq.operations.start import StartKind, parse_start

if TYPE_CHECKING:
    from pymq.cli.mirror.mirror import Mirror
    from pymq.security.credentials import Credentials

app = new_app()

ON_ERROR = ("stop", "skip")


@app.command(
    epilog=examples(
        "pymq mirror orders --to other:9876 --group to_other",
        "pymq mirror 'order*' payments --to other:9876 --progress mirror.json --rename 'eu_{topic}'",
        "pymq mirror '*' --to other:9876 --progress copy.json --once -o json",
        "pymq mirror '*' --to other:9876 --group to_other --rate 5000 --metrics-port 9100",
    )
)
def mirror(
    session: Session,
    topics: Annotated[
        list[str],
        typer.Argument(metavar="TOPIC...", help="Topics, or patterns as 'order*'.", autocompletion=live("topic")),
    ],
    target: Annotated[
        str,
        typer.Option(
            "--to", metavar="HOST:PORT;…|CONTEXT", help="Name servers of the cluster to copy to, or its context."
        ),
    ],
    to_credentials: Annotated[
        str | None,
        typer.Option(
            "--to-credentials",
            metavar="env:PREFIX|file:PATH",
            help="What requests to that cluster are signed with; default: as for --credentials.",
        ),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            "--group",
            metavar="NAME",
            help="Keep the progress as this group's offsets at the source.",
            autocompletion=live("group"),
        ),
    ] = None,
    progress: Annotated[
        Path | None, typer.Option("--progress", metavar="FILE", help="Keep the progress in this file.")
    ] = None,
    start: Annotated[
        str,
        typer.Option("--start", metavar="WHERE", help="Where new queues begin: start, end, -15m, a time."),
    ] = "start",
    rename: Annotated[
        str, typer.Option("--rename", metavar="TEMPLATE", help="The topics' names at the target.")
    ] = "{topic}",
    create: Annotated[
        bool, typer.Option("--create/--no-create", help="Create topics that the target lacks, or refuse to begin.")
    ] = True,
    once: Annotated[bool, typer.Option("--once", help="Stop when everything that is there now is copied.")] = False,
    rate: Annotated[
        float | None, typer.Option("--rate", metavar="N", min=0.01, help="At most N messages per second.")
    ] = None,
    on_error: Annotated[
        str, typer.Option("--on-error", metavar="stop|skip", help="When a message can't be copied.")
    ] = "stop",
    source_name: Annotated[
        str | None, typer.Option("--source-name", metavar="NAME", help="The source's name, if not its cluster's.")
    ] = None,
    target_name: Annotated[
        str | None, typer.Option("--target-name", metavar="NAME", help="The target's name, if not its cluster's.")
    ] = None,
    metrics_port: MetricsPortOption = None,
    output: OutputOption = OutputFormat.table,
) -> None:
    """Copy topics to another cluster, at least once and in the order of each queue, until Ctrl-C.

    The same command goes on where it stopped. What came from the target is not copied back.
    """
    begin = parse_start(start, time.time_ns() // 1_000_000)
    if begin.kind not in (StartKind.FIRST, StartKind.END, StartKind.TIME):
        raise UsageError(f"--start {start!r}: write start, end, -15m, or 2026-01-31T12:00")
    if on_error not in ON_ERROR:
        raise UsageError(f"--on-error {on_error!r}: use {' or '.join(ON_ERROR)}")

    from pymq.cli.mirror.mirror import Mirror, MirrorOptions

    place, target_credentials = _target(target, to_credentials)
    work = Mirror(
        MirrorOptions(
            topics=topics,
            source=session.namesrv,
            target=place,
            target_credentials=target_credentials,
            group=group,
            progress=progress,
            start=begin,
            rename=rename,
            create=create,
            once=once,
            rate_per_s=rate,
            skips_failures=on_error == "skip",
            source_name=source_name,
            target_name=target_name,
        )
    )

    _run(work, metrics_port, output)


def _target(target: str, credentials: str | None) -> tuple[str, Credentials | None]:
    """Return the name servers of a place or context, and what requests to them are signed with."""
    from pymq.cli.common.context_file import load_contexts
    from pymq.security.credentials import Credentials

    if ":" not in target:
        contexts = load_contexts(os.environ)
        credentials = credentials or contexts.credentials.get(target)
        target = contexts.find(target)
    return target, Credentials.find(credentials) if credentials else request_credentials.get()


def _run(work: Mirror, metrics_port: int | None, output: OutputFormat) -> None:
    """Copy until it is done or stopped, and show the counts, also after an error."""
    from pymq.cli.common.session import until_done_or_stopped
    from pymq.net.runtime import run

    async def serve() -> None:
        place = metrics_place_of_command("127.0.0.1", metrics_port)
        async with serving_metrics(place, work.figures) as address:
            if address:
                print_note(f"pymq: metrics on {address}/metrics")
            await until_done_or_stopped(work.run())

    try:
        run(serve())
    finally:
        if work.has_begun and not print_data(work.figures.record(), output):
            print_line(work.figures.text())
