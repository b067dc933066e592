"""``pymq dlq``: list, show, resend, export, purge."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pymq.cli.common.live import live
from pymq.cli.common.options import (
    ApplyOption,
    DryRunOption,
    MessageOutputOption,
    OutputOption,
    request_credentials,
    split_addresses,
)
from pymq.cli.common.session import Session
from pymq.cli.declared import examples, new_app
from pymq.cli.output import (
    Column,
    MessageOutput,
    OutputFormat,
    is_styled,
    print_data,
    print_fields,
    print_line,
    print_listing,
    print_note,
)
from pymq.errors import EXIT_FAILED, UsageError
from pymq.operations.times import local_time

if TYPE_CHECKING:
    from pymq.operations.dead_letters import Wanted

app = new_app("List, show, resend, export and delete dead letters.")

GroupArgument = Annotated[
    str, typer.Argument(metavar="GROUP", help="The consumer group.", autocompletion=live("group"))
]
IdOption = Annotated[
    list[str] | None,
    typer.Option("--id", metavar="ID", help="Only the message with this id, of any kind (repeatable)."),
]
OriginOption = Annotated[
    str | None,
    typer.Option(
        "--origin", metavar="TOPIC", help="Only messages that came from this topic.", autocompletion=live("topic")
    ),
]
BeginOption = Annotated[
    str | None,
    typer.Option("--from", metavar="TIME", help="Only messages that died at or after: -1h, 2026-01-31T12:00."),
]
EndOption = Annotated[str | None, typer.Option("--to", metavar="TIME", help="Only messages that died before.")]
MaxOption = Annotated[int | None, typer.Option("--max", metavar="N", min=1, help="At most N messages, oldest first.")]

LIST_COLUMNS = [
    Column("group"),
    Column("messages", right=True),
    Column("brokers"),
    Column("last_stored_ms", "LAST", show=local_time),
]


@app.command("list", epilog=examples("pymq dlq list", "pymq dlq list -o json"), watched=True)
def list_groups(session: Session, output: OutputOption = OutputFormat.table) -> None:
    """List the groups with dead letters: messages that failed as often as the group allows."""
    from pymq.operations import dead_letters as work

    records = session.ask(work.list_groups)
    print_listing(records, LIST_COLUMNS, output, "no group has dead letters")


@app.command(epilog=examples("pymq dlq show billing", "pymq dlq show billing --origin orders --from -1h -o json"))
def show(
    session: Session,
    group: GroupArgument,
    ids: IdOption = None,
    origin: OriginOption = None,
    begin: BeginOption = None,
    end: EndOption = None,
    count_max: MaxOption = 64,
    output: MessageOutputOption = MessageOutput.text,
) -> None:
    """Show a group's dead letters."""
    import sys

    from pymq.cli.common.message_text import message_stream

    stream = message_stream(output, color=is_styled())
    count = _write(session.namesrv, _wanted(group, ids, origin, begin, end, count_max), sys.stdout.buffer, stream)
    sys.stdout.buffer.write(stream.end())
    sys.stdout.buffer.flush()
    if not count and output in (MessageOutput.text, MessageOutput.table):
        print_note("no dead letter matches")


@app.command(
    epilog=examples("pymq dlq export billing --out dead.jsonl", "pymq dlq export billing --from -1d --out dead.jsonl")
)
def export(
    session: Session,
    group: GroupArgument,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The file to write; it must not exist.")],
    ids: IdOption = None,
    origin: OriginOption = None,
    begin: BeginOption = None,
    end: EndOption = None,
    count_max: MaxOption = None,
) -> None:
    """Write a group's dead letters to a file, one JSON object per line, as pymq tail -o jsonl does."""
    from pymq.operations.message.records import json_line

    try:
        with out.open("xb") as target:
            count = _write(session.namesrv, _wanted(group, ids, origin, begin, end, count_max), target, json_line)
    except FileExistsError as error:
        raise UsageError(f"{out} exists: name another file") from error
    print_line(f"wrote {count} dead letters of {group} to {out}")


@app.command(
    epilog=examples(
        "pymq dlq resend billing",
        "pymq dlq resend billing --origin orders --from -1h --yes",
        "pymq dlq resend billing --id 7F00000100002A9F0000000000000000 --yes",
    )
)
def resend(
    session: Session,
    group: GroupArgument,
    ids: IdOption = None,
    origin: OriginOption = None,
    begin: BeginOption = None,
    end: EndOption = None,
    count_max: MaxOption = None,
    to_topic: Annotated[
        bool,
        typer.Option("--to-topic", help="Send to the topics they came from, for all groups; needed by ordered groups."),
    ] = False,
    yes: ApplyOption = False,
    dry_run: DryRunOption = False,
    output: OutputOption = OutputFormat.table,
) -> None:
    """Send dead letters again: to the group alone, which gets them as new tries, or to their topics.

    They keep their message ids, and stay among the dead letters until they are purged. Without --yes this shows the
    plan and sends nothing.
    """
    import asyncio

    from pymq.operations import dead_letters as work

    yes = yes and not dry_run
    wanted = _wanted(group, ids, origin, begin, end, count_max)
    done = asyncio.run(
        work.resend(_joined(session.namesrv), wanted, request_credentials.get(), to_topic=to_topic, apply=yes)
    )
    record = done.record(group, to_topic=to_topic, applied=yes)
    if not print_data(record, output):
        _print_resent(record)
    if done.failed:
        raise typer.Exit(EXIT_FAILED)


@app.command(epilog=examples("pymq dlq purge billing", "pymq dlq purge billing --yes"))
def purge(
    session: Session,
    group: GroupArgument,
    yes: ApplyOption = False,
    dry_run: DryRunOption = False,
    output: OutputOption = OutputFormat.table,
) -> None:
    """Delete all dead letters of a group: the topic that holds them.

    The next dead letter makes the topic again. Without --yes this shows the plan and deletes nothing.
    """
    from pymq.operations import dead_letters as work

    yes = yes and not dry_run
    make = work.purge if yes else work.plan_purge
    record = session.ask(lambda admin: make(admin, group))
    if not print_data(record, output):
        print_fields({name: value for name, value in record.items() if name != "applied"})
        if not yes:
            print_note("nothing was deleted: --yes applies this plan")
    if record.get("left"):
        raise typer.Exit(EXIT_FAILED)


def _wanted(
    group: str, ids: list[str] | None, origin: str | None, begin: str | None, end: str | None, count_max: int | None
) -> Wanted:
    from pymq.operations.dead_letters import TIME_MAX_MS, Wanted
    from pymq.units import parse_time_ms

    now_ms = time.time_ns() // 1_000_000
    begin_ms = parse_time_ms(begin, now_ms) if begin else 0
    end_ms = parse_time_ms(end, now_ms) if end else TIME_MAX_MS
    if begin_ms > end_ms:
        raise UsageError("--from is later than --to: give a --from before --to")
    return Wanted(group, frozenset(ids or []), origin, begin_ms, end_ms, count_max)


def _write(namesrv: str, wanted: Wanted, target: Any, to_bytes: Any) -> int:
    """Write the dead letters as they come, and return their number."""
    import asyncio

    from pymq.operations import dead_letters as work

    async def session() -> int:
        count = 0
        async for message in work.dead_letters(_joined(namesrv), wanted, request_credentials.get()):
            target.write(to_bytes(message))
            count += 1
        target.flush()
        return count

    return asyncio.run(session())


def _joined(namesrv: str) -> str:
    return ";".join(split_addresses(namesrv))


def _print_resent(record: dict[str, Any]) -> None:
    what = "their topics, for all groups" if record["to"] == "topic" else f"group {record['group']} alone"
    print_line(f"{record['found']} dead letters of {record['group']}, to {what}")
    for origin, count in sorted(record["origins"].items()):
        print_line(f"  {count} from {origin}")
    for failure in record["failures"]:
        print_note(f"pymq: {failure}")
    if record["applied"]:
        print_line(f"sent {record['sent']}, failed {record['failed']}")
    else:
        print_note("nothing was sent: --yes applies this plan")
