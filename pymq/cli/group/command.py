"""``pymq group``: list, describe, lag here; the others in :mod:`~pymq.cli.group.changes` and :mod:`.members`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from pymq.cli.common.cells import shown_ms
from pymq.cli.common.live import live
from pymq.cli.common.options import GroupArgument, OutputOption
from pymq.cli.common.session import Session, end_partial
from pymq.cli.declared import examples, new_app
from pymq.cli.group.changes import create, delete, disable, enable, update
from pymq.cli.group.members import client, consume, members, print_differing
from pymq.cli.output import (
    Column,
    OutputFormat,
    print_data,
    print_fields,
    print_line,
    print_listing,
    print_section,
)
from pymq.units import format_count

app = new_app("List, create, change, delete and inspect consumer groups.")

LAG_COLUMNS = [
    Column("topic"),
    Column("broker"),
    Column("queue", right=True),
    Column("end_offset", right=True),
    Column("committed", right=True),
    Column("lag", right=True),
    Column("lag_ms", "LAG TIME", right=True, show=shown_ms),
    Column("invisible", right=True),
]

TOPIC_LAG_COLUMNS = [
    Column("topic"),
    Column("queues", right=True),
    Column("lag", right=True),
    Column("lag_ms", "LAG TIME", right=True, show=shown_ms),
    Column("invisible", right=True),
    Column("retry", right=True),
]

FILTER_COLUMNS = [
    Column("topic"),
    Column("filter"),
    Column("place", "RUNS IN"),
    Column("at"),
    Column("matched", right=True),
    Column("skipped", right=True),
    Column("errors", right=True),
    Column("time_ms", "MS", right=True),
]


@app.command("list", epilog=examples("pymq group list", "pymq group list --all -o json"), watched=True)
def list_groups(
    session: Session,
    show_all: Annotated[bool, typer.Option("--all", help="RocketMQ's own groups too.")] = False,
    output: OutputOption = OutputFormat.table,
) -> None:
    """List consumer groups with their members and their lag."""
    from pymq.operations.group import listing as work

    records, unreached = session.ask_reachable(lambda admin: work.list_groups(admin, show_all))
    columns = [
        Column("group"),
        Column("brokers"),
        Column("members", right=True),
        Column("lag", right=True),
        Column("invisible", right=True),
        Column("retry_max", "RETRIES", right=True),
        Column("enabled"),
    ]
    print_listing(records, columns, output, "no consumer groups: the first start of a consumer creates one")
    end_partial(unreached)


@app.command(epilog=examples("pymq group describe billing", "pymq group describe billing -o json"), watched=True)
def describe(session: Session, name: GroupArgument, output: OutputOption = OutputFormat.table) -> None:
    """Show a group: its settings, members, subscriptions and progress."""
    from pymq.clock import SystemClock
    from pymq.operations.group import listing as work

    described, unreached = session.ask_reachable(lambda admin: work.describe_group(admin, name, SystemClock()))
    if not print_data(described, output):
        _print_described(described)
    end_partial(unreached)


def _print_described(described: dict[str, Any]) -> None:
    print_fields(_described_fields(described))
    member_columns = [Column("client_id"), Column("address"), Column("language"), Column("version")]
    print_section("members", described["members"], member_columns, "no member is online")
    subscription_columns = [Column("topic"), Column("expression"), Column("type")]
    print_section("subscriptions", described["subscriptions"], subscription_columns, "none")
    print_differing(described["differing_subscriptions"])
    print_section("progress", described["progress"], TOPIC_LAG_COLUMNS, "nothing read yet")
    if described["filters"]:
        print_section("filters", described["filters"], FILTER_COLUMNS, "none")


def _described_fields(described: dict[str, Any]) -> dict[str, Any]:
    """Return the single values of a described group, with names for people."""
    kind = described["model"] and f"{described['model'].lower()}, {described['consume_from'] or ''}".rstrip(", ")
    return {
        "group": described["group"],
        "brokers": described["brokers"],
        "consuming": {True: "allowed", False: "off"}.get(described["enabled"], described["enabled"]),
        "mode": kind,
        "retries": described["retry_max"],
        "lag": described["lag"],
        "invisible": described["invisible"],
    }


@app.command(
    epilog=examples("pymq group lag", "pymq group lag billing", "pymq group lag billing --topic orders -o json"),
    watched=True,
)
def lag(
    session: Session,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME", help="The group; without it totals of all groups.", autocompletion=live("group")
        ),
    ] = None,
    topic: Annotated[
        str | None, typer.Option("--topic", metavar="NAME", help="Only this topic.", autocompletion=live("topic"))
    ] = None,
    times: Annotated[bool, typer.Option("--times", help="All groups: also the times that are slow to find.")] = False,
    output: OutputOption = OutputFormat.table,
) -> None:
    """Show the lag of one group by queue, or of all groups by topic.

    Where many groups are behind in many queues, the time that their messages wait is asked for with --times.
    """
    from pymq.clock import SystemClock
    from pymq.operations.group import lag as work

    if name is None:
        records, unreached = session.ask_reachable(
            lambda admin: work.lag_of_all(admin, topic, SystemClock(), with_all_times=times)
        )
        print_listing(records, [Column("group"), *TOPIC_LAG_COLUMNS], output, "no group has read anything yet")
    else:
        group = name
        records, unreached = session.ask_reachable(lambda admin: work.lag_of_group(admin, group, topic, SystemClock()))
        where = " at the brokers that answer" if unreached else ""
        print_listing(records, LAG_COLUMNS, output, f"{name} has read nothing yet{where}")
        if output is OutputFormat.table and records:
            print_line(_totals_text(records))
    end_partial(unreached)


def _totals_text(records: list[dict[str, Any]]) -> str:
    """Return the last line under the records of a group's queues."""
    from pymq.model.names import RETRY_PREFIX

    lag, invisible = (sum(record[name] or 0 for record in records) for name in ("lag", "invisible"))
    retry = sum(record["lag"] or 0 for record in records if record["topic"].startswith(RETRY_PREFIX))
    oldest_ms = max((record["lag_ms"] or 0 for record in records), default=0)
    unknown = sum(record["lag"] is None for record in records)
    is_uncounted = any(record["invisible"] is None for record in records)
    parts = [
        f"total lag {lag}",
        f"{retry} of it in retry" if retry else "",
        f"{invisible} invisible" if invisible else "",
        "invisible messages are not counted by RocketMQ's brokers" if is_uncounted else "",
        f"the oldest waits for {shown_ms(oldest_ms)}" if oldest_ms else "",
        f"unknown in {format_count(unknown, 'queue')} without a committed offset" if unknown else "",
    ]
    return ", ".join(filter(None, parts))


app.command(
    epilog=examples(
        "pymq group create billing",
        "pymq group create billing -c DefaultCluster --retries 5 --ordered",
        "pymq group create billing -b broker-a --dry-run",
    )
)(create)
app.command(
    epilog=examples("pymq group update billing --retries 5", "pymq group update billing -b broker-a --no-broadcast")
)(update)
app.command(epilog=examples("pymq group enable billing", "pymq group enable billing -b broker-a"))(enable)
app.command(epilog=examples("pymq group disable billing", "pymq group disable billing -b broker-a"))(disable)
app.command(epilog=examples("pymq group delete billing", "pymq group delete billing --yes --with-topics"))(delete)
app.command(epilog=examples("pymq group members billing", "pymq group members billing -o json"), watched=True)(members)
app.command(epilog=examples("pymq group client billing 10.0.0.7@4711", "pymq group client billing ID --stack"))(client)
app.command(
    epilog=examples(
        "pymq group consume billing 10.0.0.7@4711 7F00000100002A9F0000000000000000",
        "pymq group consume billing 10.0.0.7@4711 ID --topic orders",
    )
)(consume)
