"""``pymq group members``, ``client``, ``consume``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from pymq.cli.common.live import live
from pymq.cli.common.options import DryRunOption, GroupArgument, OutputOption
from pymq.cli.common.session import Session, end_partial
from pymq.cli.output import (
    Column,
    OutputFormat,
    print_data,
    print_fields,
    print_line,
    print_note,
    print_section,
)
from pymq.errors import EXIT_FAILED
from pymq.operations.times import local_time

ClientArgument = Annotated[str, typer.Argument(metavar="CLIENT_ID", help="The member, as group members shows it.")]

DIFFERING_COLUMNS = [Column("topic"), Column("selection"), Column("members", right=True)]
DIFFERING_NOTE = (
    "members subscribe differently, and lose messages that others skip: give all members the same subscriptions, or "
    "each kind of member a group of its own"
)
_MEMBER_COLUMNS = [
    Column("client_id"),
    Column("address"),
    Column("language"),
    Column("version"),
    Column("queues", right=True),
]
_OWNER_COLUMNS = [Column("topic"), Column("broker"), Column("queue", right=True), Column("owner")]
_SUBSCRIPTION_COLUMNS = [Column("topic"), Column("expression"), Column("type")]
_QUEUE_COLUMNS = [
    Column("topic"),
    Column("broker"),
    Column("queue", right=True),
    Column("committed", right=True),
    Column("cached", right=True),
    Column("last_pull_ms", "LAST PULL", show=local_time),
]
_RATE_COLUMNS = [
    Column("topic"),
    Column("pulled_per_second", "PULLED/S", right=True),
    Column("consumed_per_second", "DONE/S", right=True),
    Column("failed_per_second", "FAILED/S", right=True),
    Column("consume_ms", "MS", right=True),
]


def members(session: Session, name: GroupArgument, output: OutputOption = OutputFormat.table) -> None:
    """Show the members that are online with their versions, which queues each owns, and queues that none owns."""
    from pymq.operations.group import members as work

    record, unreached = session.ask_reachable(lambda admin: work.members(admin, name))
    if not print_data(record, output):
        _print_members(record)
    end_partial(unreached)


def _print_members(record: dict[str, Any]) -> None:
    if not record["members"]:
        print_note(f"no member of {record['group']} is online")
        return
    print_fields({"group": record["group"], "mode": record["mode"]})
    print_section("members", record["members"], _MEMBER_COLUMNS, "no member is online")
    print_section("queues", record["queues"], _OWNER_COLUMNS, "no member owns a queue")
    print_differing(record["differing_subscriptions"])
    if record["without_answer"]:
        print_note(f"{len(record['without_answer'])} members did not say which queues they own")
    unowned = sum(queue["owner"] is None for queue in record["queues"])
    if unowned:
        print_note(f"{unowned} queues have no owner: new members take them within 20 s, otherwise look at the members")


def print_differing(records: list[dict[str, Any]]) -> None:
    """Print topics that members subscribe to differently, and what to do; nothing when there are none."""
    if records:
        print_section("differing subscriptions", records, DIFFERING_COLUMNS, "none")
        print_note(DIFFERING_NOTE)


def client(
    session: Session,
    name: GroupArgument,
    client_id: ClientArgument,
    stack: Annotated[bool, typer.Option("--stack", help="Also what each of its threads does now.")] = False,
    output: OutputOption = OutputFormat.table,
) -> None:
    """Show what a live member says about itself: settings, subscriptions, queues, rates, and with --stack its stack."""
    from pymq.operations.group import members as work

    record = session.ask(lambda admin: work.client(admin, name, client_id, with_stacks=stack))
    if print_data(record, output):
        return
    print_fields({key: record[key] for key in ("client_id", "address", "language", "version")} | record["properties"])
    print_section("subscriptions", record["subscriptions"], _SUBSCRIPTION_COLUMNS, "none")
    print_section("queues", record["queues"], _QUEUE_COLUMNS, "none")
    print_section("rates", record["rates"], _RATE_COLUMNS, "none")
    if stack:
        print_line()
        print_line(record["stack"] or "the member sent no stack: its client is too old for it")


def consume(
    session: Session,
    name: GroupArgument,
    client_id: ClientArgument,
    message_id: Annotated[str, typer.Argument(metavar="MESSAGE_ID", help="A broker's id, or with --topic any id.")],
    topic: Annotated[
        str | None,
        typer.Option("--topic", metavar="NAME", help="The topic of a producer's id.", autocompletion=live("topic")),
    ] = None,
    dry_run: DryRunOption = False,
    output: OutputOption = OutputFormat.table,
) -> None:
    """Have one member handle one stored message now, and show its result; the group's offsets stay.

    Exit code 1: the member failed on the message.
    """
    from pymq.operations.group import members as work

    record = session.ask(lambda admin: work.consume(admin, name, client_id, message_id, topic, is_dry=dry_run))
    if dry_run:
        if not print_data(record, output):
            print_line(f"would have {client_id} handle {record['message_id']} of {record['topic']}")
        return
    if not print_data(record, output):
        remark = f": {record['remark']}" if record["remark"] else ""
        print_line(f"{record['result']} after {record['spent_ms']} ms{remark}")
    if not record["succeeded"]:
        raise typer.Exit(EXIT_FAILED)
