"""``pymq lite``: list, describe, lag."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pymq.cli.common.live import live
from pymq.cli.common.options import OutputOption
from pymq.cli.common.session import Session, end_partial
from pymq.cli.declared import examples, new_app
from pymq.cli.output import Column, OutputFormat, print_data, print_fields, print_line, print_listing, print_note
from pymq.operations.times import local_time
from pymq.units import format_count, format_duration_ms

if TYPE_CHECKING:
    from pymq.client.admin import Admin

app = new_app("List and inspect lite topics, and the lag of their groups.")

PARENT_HELP = "The parent topic, of type lite."
_Row = dict[str, Any]


def _never(expire_ms: Any) -> str:
    return "never" if expire_ms < 0 else format_duration_ms(expire_ms)


PARENT_COLUMNS = [
    Column("topic"),
    Column("lite_topics", right=True),
    Column("expire_ms", "EXPIRE", show=_never),
    Column("groups", show=", ".join),
    Column("brokers", show=", ".join, extra=True),
]
LITE_COLUMNS = [Column("lite_topic"), Column("next_offset", right=True), Column("broker")]
LAG_COLUMNS = [
    Column("lite_topic"),
    Column("lag", right=True),
    Column("waiting_since_ms", "WAITING SINCE", show=local_time),
]


@app.command(
    "list", epilog=examples("pymq lite list", "pymq lite list sessions -n 1000", "pymq lite list sessions --prefix eu-")
)
def list_lites(
    session: Session,
    parent: Annotated[
        str | None, typer.Argument(metavar="[TOPIC]", help=PARENT_HELP, autocompletion=live("topic"))
    ] = None,
    prefix: Annotated[str, typer.Option("--prefix", metavar="TEXT", help="Only names that begin with this.")] = "",
    count: Annotated[
        int, typer.Option("--count", "-n", metavar="N", min=1, help="Show at most N lite topics of TOPIC.")
    ] = 100,
    output: OutputOption = OutputFormat.table,
) -> None:
    """List the topics that have lite topics, or the lite topics of one of them."""
    from pymq.operations import lite as work

    if parent is None:
        records, unreached = session.ask_reachable(work.parents)
        print_listing(records, PARENT_COLUMNS, output, "no topic has lite topics: make one with pymq topic create")
        end_partial(unreached)
        return

    async def first(admin: Admin) -> list[_Row]:
        found: list[_Row] = []
        async for record in work.lite_topics(admin, parent, prefix):
            found.append(record)
            if len(found) > count:
                break
        return found

    rows, unreached = session.ask_reachable(first)
    print_listing(rows[:count], LITE_COLUMNS, output, f"{parent} has no lite topic")
    if len(rows) > count:
        print_note(f"there are more than {count}: use --count, or --prefix")
    end_partial(unreached)


@app.command(
    epilog=examples("pymq lite describe sessions session-4711", "pymq lite describe sessions session-4711 --json")
)
def describe(
    session: Session,
    parent: Annotated[str, typer.Argument(metavar="TOPIC", help=PARENT_HELP, autocompletion=live("topic"))],
    name: Annotated[str, typer.Argument(metavar="LITE", help="The lite topic.")],
    output: OutputOption = OutputFormat.table,
) -> None:
    """Show the messages of a lite topic, and who subscribes to it."""
    from pymq.operations import lite as work

    record, unreached = session.ask_reachable(lambda admin: work.lite_topic(admin, parent, name))
    if not print_data(record, output):
        subscribers = [f"{one['client']} in {one['group']}" for one in record["subscribers"]]
        fields = {
            "topic": parent,
            "lite topic": name,
            "messages": record["messages"],
            "offsets": f"{record['min_offset']} to {record['next_offset']} (the next)",
            "last stored": local_time(record["last_ms"]) if record["last_ms"] > 0 else "-",
            "broker": record["broker"] or "-",
            "subscribers": "\n".join(subscribers) or "-",
        }
        print_fields(fields)
    end_partial(unreached)


@app.command(
    epilog=examples("pymq lite lag agents", "pymq lite lag agents session-4711", "pymq lite lag agents -n 50 --json")
)
def lag(
    session: Session,
    group: Annotated[
        str, typer.Argument(metavar="GROUP", help="A group of lite topics.", autocompletion=live("group"))
    ],
    name: Annotated[str | None, typer.Argument(metavar="[LITE]", help="Only this lite topic.")] = None,
    count: Annotated[
        int, typer.Option("--count", "-n", metavar="N", min=1, max=1000, help="Show the N lite topics with most lag.")
    ] = 10,
    output: OutputOption = OutputFormat.table,
) -> None:
    """Show how far a group is behind in its lite topics."""
    from pymq.operations import lite as work

    if name is not None:
        record, unreached = session.ask_reachable(lambda admin: work.lag_in(admin, group, name))
        if not print_data(record, output):
            print_fields(
                {
                    "group": group,
                    "topic": record["topic"],
                    "lite topic": name,
                    "lag": record["lag"],
                    "committed": "-" if record["committed"] is None else record["committed"],
                    "next offset": record["next_offset"],
                    "waiting": _waiting(record["waiting_since_ms"]),
                }
            )
        end_partial(unreached)
        return
    record, unreached = session.ask_reachable(lambda admin: work.lag(admin, group, count))
    if not print_data(record, output):
        behind = format_count(record["lag"], "message")
        print_line(f"{group} is {behind} behind in {record['topic']}; {_waiting(record['waiting_since_ms'])}")
        print_listing(record["lite_topics"], LAG_COLUMNS, output)
    end_partial(unreached)


def _waiting(since_ms: int | None) -> str:
    return (
        "none waits"
        if since_ms is None
        else f"the oldest for {format_duration_ms(max(0, time.time_ns() // 1_000_000 - since_ms))}"
    )
