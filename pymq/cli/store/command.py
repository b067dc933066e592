"""``pymq store``: verifies, inspects, dumps, repairs and recovers the data directory of a stopped broker, and more."""

from __future__ import annotations

import time
from enum import StrEnum
from typing import Annotated

import typer

from pymq.cli.common.live import live
from pymq.cli.common.options import DryRunOption, InflateRatioOption, OutputOption
from pymq.cli.declared import examples, new_app
from pymq.cli.output import OutputFormat
from pymq.errors import EXIT_FAILED, UsageError
from pymq.model.compression import INFLATION_RATIO_MAX

app = new_app("Verify, inspect, dump, repair, recover or thaw the data directory of a stopped broker.")

DirectoryArgument = Annotated[str, typer.Argument(metavar="DIR", help="A broker's data directory (storePathRootDir).")]
CommitLogOption = Annotated[
    str | None,
    typer.Option("--commitlog", metavar="DIR", help="The commit log, when storePathCommitLog puts it elsewhere."),
]
ConfigOption = Annotated[
    str | None,
    typer.Option(
        "-c", "--config", metavar="FILE", help="The broker's configuration file, for its index size and delay levels."
    ),
]
RunningOption = Annotated[
    bool, typer.Option("--while-running", help="Read even if a broker runs there; the newest part may be missing.")
]


class DumpOutput(StrEnum):
    """The formats of ``pymq store dump``: those of all commands, and Parquet."""

    table = "table"
    json = "json"
    jsonl = "jsonl"
    tsv = "tsv"
    yaml = "yaml"
    parquet = "parquet"


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
    """Verify a directory and name the first bad byte. Changes nothing.

    Checks the structure and CRC of every record, the chain of segments and offsets, every queue and the key index
    against the log, and checkpoint and tables. Exit code 0: sound, 1: damage was found.
    """
    from pymq.cli.store import work

    if not work.run_verify(work.StoreLocation(directory, commit_log, config), output):
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
        str | None,
        typer.Option("--id", metavar="ID", help="Show the message with this id, made by a broker or a producer."),
    ] = None,
    topic: Annotated[
        str | None,
        typer.Option("--topic", metavar="NAME", help="Only queues of this topic.", autocompletion=live("topic")),
    ] = None,
    commit_log: CommitLogOption = None,
    config: ConfigOption = None,
    while_running: RunningOption = False,
    output: OutputOption = OutputFormat.table,
) -> None:
    """Show the contents of a directory (segments, queues, index, checkpoint, tables), or one of its messages."""
    from pymq.cli.store import work

    if offset is not None and message_id is not None:
        raise UsageError("--offset and --id exclude each other: give one of them")
    place = work.StoreLocation(directory, commit_log, config, while_running)
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
        "pymq store dump ~/store/divergent/*.log",
    )
)
def dump(
    directory: DirectoryArgument,
    output: Annotated[
        DumpOutput, typer.Option("--output", "-o", help="A line each, records, or Parquet.")
    ] = DumpOutput.jsonl,
    target: Annotated[
        str | None,
        typer.Option("--out", metavar="FILE", help="Write to this file instead of stdout; required for Parquet."),
    ] = None,
    topics: Annotated[
        list[str] | None,
        typer.Option(
            "--topic", "-t", metavar="NAME", help="Only this topic; repeatable.", autocompletion=live("topic")
        ),
    ] = None,
    begin: Annotated[
        str | None, typer.Option("--from", metavar="WHERE", help="A queue offset, -1h, or a time (2026-01-31T12:00).")
    ] = None,
    end: Annotated[
        str | None, typer.Option("--to", metavar="WHERE", help="End of the range, in the forms of --from; excluded.")
    ] = None,
    inflate_ratio: InflateRatioOption = INFLATION_RATIO_MAX,
    commit_log: CommitLogOption = None,
    while_running: RunningOption = False,
) -> None:
    """Write every message of the log, in order. Damaged ones are reported on stderr and left out (exit code 1).

    DIR may also be a file in a directory's divergent/, which holds what was truncated from its log.
    """
    from pymq.cli.store import work

    if output is DumpOutput.parquet and target is None:
        raise UsageError("-o parquet needs a file: give --out FILE")
    wanted = work.parse_selection(topics or (), begin, end, time.time_ns() // 1_000_000)
    place = work.StoreLocation(directory, commit_log, None, while_running)
    kind = None if output is DumpOutput.parquet else OutputFormat(output.value)
    if not work.run_dump(place, kind, target, wanted, inflate_ratio):
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
        str, typer.Option("--to", metavar="NEWDIR", help="Directory for the sound copy; DIR stays unchanged.")
    ],
    commit_log: CommitLogOption = None,
    config: ConfigOption = None,
    output: OutputOption = OutputFormat.table,
) -> None:
    """Write a sound copy of a damaged directory and report exactly what is lost.

    Every readable message keeps its offsets. Damaged ranges of the log become records that PyMQ and RocketMQ skip;
    queues and index are rebuilt; damaged tables come from their backups. Exit code 0: the copy was written.
    """
    from pymq.cli.store import work

    work.run_repair(work.StoreLocation(directory, commit_log, config), target, output)


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
        typer.Option("--from", metavar="HOST:PORT", help="A running broker with the same log: a slave or the master."),
    ],
    verify_only: Annotated[
        bool, typer.Option("--verify-only", "--dry-run", help="Compare with the source and change nothing.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Recover even if the logs seem to be of different brokers.")
    ] = False,
    commit_log: CommitLogOption = None,
    config: ConfigOption = None,
    output: OutputOption = OutputFormat.table,
) -> None:
    """Rebuild a directory with a lost or damaged log or queues from a slave, or from the master.

    Compares the logs by digests and fetches only the differences; DIR may be missing. Replaced files are kept in
    DIR/replaced, and what DIR has beyond the source's log stays. After an interruption the next call continues, and no
    broker starts there before that. Exit code 0: the log equals the source's and is sound, 1: it doesn't.
    """
    from pymq.cli.store import recover as work
    from pymq.cli.store.work import StoreLocation

    if verify_only and force:
        raise UsageError("--verify-only and --force exclude each other: give one of them")
    place = StoreLocation(directory, commit_log, config)
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
    dry_run: DryRunOption = False,
    output: OutputOption = OutputFormat.table,
) -> None:
    """Decompress segments, so that RocketMQ can read the directory. This changes DIR.

    Needs free space for the decompressed segments. After an interruption another call continues.
    """
    from pymq.cli.store import work

    work.run_thaw(work.StoreLocation(directory, commit_log), output, is_dry=dry_run)


@app.command(
    name="accept-loss",
    epilog=examples(
        "pymq store accept-loss /var/lib/pymq/broker-a",
        "pymq store accept-loss /var/lib/pymq/broker-a --yes",
    ),
)
def accept_loss(
    directory: DirectoryArgument,
    yes: Annotated[bool, typer.Option("--yes", help="Give the messages up; without it, only say which.")] = False,
    dry_run: DryRunOption = False,
    commit_log: CommitLogOption = None,
    output: OutputOption = OutputFormat.table,
) -> None:
    """Give up missing tables and the messages in missing segments of the log, so that a broker starts again. --yes
    changes DIR.

    The offsets of lost messages stay taken, and consumers go on behind them. First try to put the files back, or `pymq
    store recover`: what slaves have of a lost end is truncated there when they rejoin. Exit code 0: nothing is missing
    any more, 1: run it again with --yes.
    """
    from pymq.cli.store import work

    if not work.run_accept_loss(work.StoreLocation(directory, commit_log), output, is_confirmed=yes and not dry_run):
        raise typer.Exit(EXIT_FAILED)
