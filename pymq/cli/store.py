"""``pymq store``: verify, inspect, dump, repair, recover and thaw the data directory of a broker that is stopped."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from pymq.cli.lazy import examples, new_app
from pymq.cli.options import OutputOption
from pymq.cli.output import OutputFormat
from pymq.errors import EXIT_FAILED, UsageError

app = new_app("Check, look into, dump, repair, recover or thaw a stopped broker's data directory.")

DirectoryArgument = Annotated[str, typer.Argument(metavar="DIR", help="A broker's data directory (storePathRootDir).")]
CommitLogOption = Annotated[
    str | None,
    typer.Option("--commitlog", metavar="DIR", help="The commit log, when storePathCommitLog puts it elsewhere."),
]
ConfigOption = Annotated[
    str | None,
    typer.Option(
        "-c", "--config", metavar="FILE", help="The broker's conf file: for odd index sizes and delay levels."
    ),
]
RunningOption = Annotated[
    bool, typer.Option("--while-running", help="Read although a broker runs there; the newest part may be missing.")
]
DUMP_FORMATS = ("jsonl", "parquet")


@app.command(
    epilog=examples(
        "pymq store verify /var/lib/pymq/broker-a",
        "pymq store verify ~/store --commitlog /disk2/commitlog -o json",
    )
)
def verify(
    directory: DirectoryArgument,
    commit_log: CommitLogOption = None,
    config: ConfigOption = None,
    output: OutputOption = OutputFormat.table,
) -> None:
    """Check everything against everything and name the first bad byte. Changes nothing.

    Every record's structure and CRC, the chain of segments and offsets, every queue and the key index against the log,
    checkpoint and tables. Exit code 0: sound, 1: damage was found.
    """
    from pymq.cli import store_work as work

    if not work.run_verify(work.Place(directory, commit_log, config), output):
        raise typer.Exit(EXIT_FAILED)


@app.command(
    epilog=examples(
        "pymq store inspect /var/lib/pymq/broker-a",
        "pymq store inspect ~/store --topic orders -o json",
        "pymq store inspect ~/store --offset 1073741824",
        "pymq store inspect ~/store --id 7F00000100002A9F0000000000000000",
    )
)
def inspect(
    directory: DirectoryArgument,
    offset: Annotated[
        int | None, typer.Option("--offset", metavar="N", min=0, help="Show the record at this commit log offset.")
    ] = None,
    message_id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="Show the message with this id, of broker or producer.")
    ] = None,
    topic: Annotated[str | None, typer.Option("--topic", metavar="NAME", help="Only queues of this topic.")] = None,
    commit_log: CommitLogOption = None,
    config: ConfigOption = None,
    while_running: RunningOption = False,
    output: OutputOption = OutputFormat.table,
) -> None:
    """Show what a directory holds: segments, queues, index, checkpoint, tables; or one of its messages."""
    from pymq.cli import store_work as work

    if offset is not None and message_id is not None:
        raise UsageError("--offset and --id exclude each other: give one of them")
    place = work.Place(directory, commit_log, config, while_running)
    if offset is None and message_id is None:
        work.run_inspect(place, topic, output)
    else:
        work.run_show(place, offset, message_id, output)


@app.command(
    epilog=examples(
        "pymq store dump /var/lib/pymq/broker-a > messages.jsonl",
        "pymq store dump ~/store --topic orders --from 2026-01-31T12:00 --to -1h",
        "pymq store dump ~/store --topic orders --from 1000 --to 2000",
        "pymq store dump ~/store -o parquet --out messages.parquet",
        "pymq store dump ~/store/diverged/*.log",
    )
)
def dump(
    directory: DirectoryArgument,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="jsonl|parquet", help="One JSON object a line, or Parquet.")
    ] = "jsonl",
    target: Annotated[
        str | None, typer.Option("--out", metavar="FILE", help="Write here and not to stdout; Parquet needs it.")
    ] = None,
    topics: Annotated[
        list[str] | None, typer.Option("--topic", "-t", metavar="NAME", help="Only this topic; repeatable.")
    ] = None,
    begin: Annotated[
        str | None, typer.Option("--from", metavar="WHERE", help="A queue offset, -1h, or a time (2026-01-31T12:00).")
    ] = None,
    end: Annotated[str | None, typer.Option("--to", metavar="WHERE", help="As --from; itself left out.")] = None,
    commit_log: CommitLogOption = None,
    while_running: RunningOption = False,
) -> None:
    """Write every message of the log, in its order. Damaged ones are told on stderr and left out (exit code 1).

    DIR may also be a file under a directory's diverged/: what was cut from its log.
    """
    from pymq.cli import store_work as work

    if output not in DUMP_FORMATS:
        raise UsageError(f"-o {output!r}: use one of {', '.join(DUMP_FORMATS)}")
    if output == "parquet" and target is None:
        raise UsageError("Parquet goes to a file: give --out FILE")
    wanted = work.parse_wanted(topics or (), begin, end, time.time_ns() // 1_000_000)
    if not work.run_dump(work.Place(directory, commit_log, None, while_running), output, target, wanted):
        raise typer.Exit(EXIT_FAILED)


@app.command(
    epilog=examples(
        "pymq store repair /var/lib/pymq/broker-a --to /var/lib/pymq/broker-a-repaired",
        "pymq store repair ~/store --to ~/store-repaired -o json > lost.json",
    )
)
def repair(
    directory: DirectoryArgument,
    target: Annotated[
        str, typer.Option("--to", metavar="NEWDIR", help="Where the sound copy goes; DIR stays as it is.")
    ],
    commit_log: CommitLogOption = None,
    config: ConfigOption = None,
    output: OutputOption = OutputFormat.table,
) -> None:
    """Write a sound copy of a damaged directory and say exactly what is lost.

    Every message that can be read keeps its offsets. Damaged ranges of the log become records that PyMQ and RocketMQ
    read past; queues and index are made again; bad tables come from their backups. Exit code 0: the copy was written.
    """
    from pymq.cli import store_work as work

    work.run_repair(work.Place(directory, commit_log, config), target, output)


@app.command(
    epilog=examples(
        "pymq store recover /var/lib/pymq/broker-a --from 10.0.0.2:10911",
        "pymq store recover ~/store --from 10.0.0.2:10911 --verify-only",
        "pymq store recover ~/store --commitlog /disk2/commitlog --from 10.0.0.2:10911 -o json",
    )
)
def recover(
    directory: DirectoryArgument,
    source: Annotated[
        str,
        typer.Option("--from", metavar="HOST:PORT", help="A running broker with the same log: a slave, the master."),
    ],
    verify_only: Annotated[
        bool, typer.Option("--verify-only", help="Compare with the source and change nothing.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Also when the logs look as if they were not of one broker.")
    ] = False,
    commit_log: CommitLogOption = None,
    config: ConfigOption = None,
    output: OutputOption = OutputFormat.table,
) -> None:
    """Rebuild a directory whose log or queues are lost or damaged from a slave, or from the master.

    The logs are compared by digests and only what differs is fetched; DIR may be missing altogether. What is replaced
    is kept in DIR/replaced, what DIR has beyond the source's log stays. Interrupted, it goes on with the next call; no
    broker starts there before. Exit code 0: the log is the source's and sound, 1: it is not.
    """
    from pymq.cli import recover_work as work
    from pymq.cli.store_work import Place

    if verify_only and force:
        raise UsageError("--verify-only changes nothing, so there is nothing to --force: give one of them")
    place = Place(directory, commit_log, config)
    if not work.run_recover(place, source, output, verify_only=verify_only, force=force):
        raise typer.Exit(EXIT_FAILED)


@app.command(
    epilog=examples(
        "pymq store thaw /var/lib/pymq/broker-a",
        "pymq store thaw ~/store --commitlog /disk2/commitlog -o json",
    )
)
def thaw(
    directory: DirectoryArgument,
    commit_log: CommitLogOption = None,
    output: OutputOption = OutputFormat.table,
) -> None:
    """Make compressed segments plain again, so that RocketMQ can read the directory. This changes DIR.

    It needs the space of the plain segments. What is done stays done when it is interrupted; another call goes on.
    """
    from pymq.cli import store_work as work

    work.run_thaw(work.Place(directory, commit_log), output)
