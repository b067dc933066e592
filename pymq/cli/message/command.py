"""``pymq message``: get by id, query by key, trace."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from pymq.cli.common.live import live
from pymq.cli.common.options import (
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
    print_data,
    print_line,
    print_listing,
    print_note,
    print_table,
)
from pymq.errors import UsageError
from pymq.operations.times import local_time

if TYPE_CHECKING:
    from pymq.operations.message.resending import Producing

app = new_app("Look messages up by id or key, and trace one.")


@app.command(
    epilog=examples(
        "pymq message get 7F00000100002A9F0000000000000000",
        "pymq message get 7F00000100002A9F0000000000000000 --topic orders -o raw",
    )
)
def get(
    session: Session,
    message_id: Annotated[str, typer.Argument(metavar="ID", help="A message id, as send and tail print it.")],
    topic: Annotated[
        str | None,
        typer.Option(
            "--topic",
            metavar="NAME",
            help="The topic; required for an id that a producer made (message_id).",
            autocompletion=live("topic"),
        ),
    ] = None,
    output: MessageOutputOption = MessageOutput.text,
) -> None:
    """Show one message by its id: the broker's (offset_message_id), or with --topic the producer's (message_id)."""
    from pymq.cli.message.show import print_messages
    from pymq.operations.message.lookup import find_by_id

    found = session.ask(lambda admin: find_by_id(admin, message_id, topic))
    print_messages(found, output, whole=True)


@app.command(epilog=examples("pymq message recall orders djEgb3JkZXJzIGJyb2tlci1hIDE3MDAwMDAwMDAwMDEgSw=="))
def recall(
    session: Session,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The message's topic.", autocompletion=live("topic"))],
    handle: Annotated[str, typer.Argument(metavar="HANDLE", help="The recall handle, as send prints it.")],
    dry_run: DryRunOption = False,
) -> None:
    """Take back a timer message that is not due yet."""
    from pymq.net.runtime import run
    from pymq.operations.message import resending as work

    if dry_run:
        named = work.recalled_by(topic, handle)
        print_line(f"would recall {named.unique_key}, due {local_time(named.deliver_ms)} on {named.broker_name}")
        return
    print_line(f"recalled {run(work.recall(topic, handle, _producing(session.namesrv)))}")


@app.command(
    epilog=examples(
        "pymq message query orders --key order-17",
        "pymq message query orders --key order-17 --from -1h -o json",
    )
)
def query(
    session: Session,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic to search.", autocompletion=live("topic"))],
    key: Annotated[str, typer.Option("--key", metavar="KEY", help="One of the messages' keys.")],
    begin: Annotated[
        str | None,
        typer.Option("--from", metavar="TIME", help="Only messages stored at or after: -1h, 2026-01-31T12:00."),
    ] = None,
    end: Annotated[str | None, typer.Option("--to", metavar="TIME", help="Only messages stored before.")] = None,
    count_max: Annotated[
        int, typer.Option("--max", metavar="N", min=1, max=10_000, help="Show at most N messages.")
    ] = 64,
    output: MessageOutputOption = MessageOutput.text,
) -> None:
    """Show the messages with a key, oldest first."""
    from pymq.cli.message.show import print_messages
    from pymq.client.admin.messages import TIME_MAX_MS
    from pymq.errors import NotFoundError
    from pymq.units import parse_time_ms

    now_ms = time.time_ns() // 1_000_000
    begin_ms = parse_time_ms(begin, now_ms) if begin else 0
    end_ms = parse_time_ms(end, now_ms) if end else TIME_MAX_MS
    if begin_ms > end_ms:
        raise UsageError("--from is later than --to: give a --from before --to")
    found = session.ask(
        lambda admin: admin.messages.by_key(topic, key, count_max=count_max, begin_ms=begin_ms, end_ms=end_ms),
    )
    if not found:
        raise NotFoundError(f"no message with key {key!r} in {topic}")
    print_messages(found, output, whole=False)


TRACE_COLUMNS = [
    Column("time_ms", "TIME", show=local_time),
    Column("event"),
    Column("group"),
    Column("client"),
    Column("cost_ms", "MS", right=True),
    Column("ok"),
    Column("detail"),
]

# As pymq.model.names has it, which a command's help must not import.
DISCARDED_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
RESEND_COLUMNS = [Column("message_id"), Column("to"), Column("sent")]


@app.command(
    epilog=examples(
        "pymq message trace 7F0000010000ABCD0123456789ABCDEF",
        "pymq message trace 7F0000010000ABCD0123456789ABCDEF --topic orders -o json",
    )
)
def trace(
    session: Session,
    message_id: Annotated[str, typer.Argument(metavar="ID", help="A message id, as send and tail print it.")],
    topic: Annotated[
        str | None,
        typer.Option(
            "--topic",
            metavar="NAME",
            help="The message's topic, to find it if its producer wrote no trace.",
            autocompletion=live("topic"),
        ),
    ] = None,
    trace_topic: Annotated[
        str | None,
        typer.Option("--trace-topic", metavar="NAME", help="Where clients write traces, if not to RocketMQ's topic."),
    ] = None,
    output: OutputOption = OutputFormat.table,
) -> None:
    """Show when a message was produced, stored, delivered and consumed, by which groups and clients, and how often.

    Clients write traces if they are asked to: PyMQ with trace=True, Java with enableMsgTrace.
    """
    from pymq.operations.message import trace as work

    record = session.ask(lambda admin: work.trace(admin, message_id, topic, trace_topic))
    if not print_data(record, output):
        print_table(record["events"], TRACE_COLUMNS)
    for text in (*record["problems"], record["why_no_trace"], record["why_not_stored"]):
        if text:
            print_note(f"pymq: {text}")


@app.command(
    epilog=examples(
        "pymq message resend 7F0000010000ABCD0123456789ABCDEF",
        "pymq message resend 7F0000010000ABCD0123456789ABCDEF --yes",
    )
)
def resend(
    session: Session,
    message_ids: Annotated[list[str], typer.Argument(metavar="ID...", help="Ids that producers made (message_id).")],
    source: Annotated[
        str, typer.Option("--from-topic", metavar="NAME", help="The topic that holds them.")
    ] = DISCARDED_TOPIC,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Send them; without it, only show where they go.")] = False,
    dry_run: DryRunOption = False,
    output: OutputOption = OutputFormat.table,
) -> None:
    """Send messages of transactions that no producer ended to the topics they were for.

    They keep their ids, and are committed at once. What was sent stays in its topic too.
    """
    from pymq.operations.message import resending as work

    yes = yes and not dry_run
    producing = _producing(session.namesrv)
    records = session.ask(lambda admin: work.resend(admin, producing, message_ids, source, apply=yes))
    print_listing(records, RESEND_COLUMNS, output)
    if not yes:
        print_note("pymq: nothing was sent; add --yes")


def _producing(namesrv: str) -> Producing:
    from pymq.operations.message.resending import Producing

    return Producing(split_addresses(namesrv), request_credentials.get())
