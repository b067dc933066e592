"""``pymq topic``: list, create, update, shrink, expand, order, delete, describe, route, stats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from pymq.cli.common.confirm import confirm
from pymq.cli.common.live import live
from pymq.cli.common.options import (
    BrokersOption,
    ClustersOption,
    ConfirmOption,
    DryRunOption,
    OutputOption,
    parse_perm,
)
from pymq.cli.common.session import Session, end_partial
from pymq.cli.declared import examples, new_app
from pymq.cli.output import Column, OutputFormat, print_data, print_line, print_listing, print_note
from pymq.cli.topic.order import order
from pymq.cli.topic.resize import expand, shrink
from pymq.units import format_count

if TYPE_CHECKING:
    from pymq.client.admin import Admin

app = new_app("List, create, update, resize, delete and inspect topics.")

NewTopicArgument = Annotated[str, typer.Argument(metavar="NAME", help="The topic.")]
TopicArgument = Annotated[str, typer.Argument(metavar="NAME", help="The topic.", autocompletion=live("topic"))]
WriteQueuesOption = Annotated[
    int | None, typer.Option("--wq", metavar="N", min=0, max=65535, help="Number of write queues on each broker.")
]
ReadQueuesOption = Annotated[
    int | None, typer.Option("--rq", metavar="N", min=0, max=65535, help="Number of read queues on each broker.")
]
PermOption = Annotated[
    str | None, typer.Option("--perm", metavar="RW|R|W", help="What clients may do: RW (6), R (4), W (2).")
]
ExpireOption = Annotated[
    str | None,
    typer.Option(
        "--expire", metavar="TIME", help="Type lite: lite topics without a message for so long expire: 90m, 1d, never."
    ),
]
DEFAULT_QUEUES = 8

CONFIG_COLUMNS = [
    Column("broker"),
    Column("address"),
    Column("read_queues", "READ QUEUES", right=True),
    Column("write_queues", "WRITE QUEUES", right=True),
    Column("perm"),
]
BEFORE = Column("before")


@app.command(
    "list",
    epilog=examples("pymq topic list", "pymq topic list --all -o json", "pymq topic list -c ClusterA"),
    watched=True,
)
def list_topics(
    session: Session,
    show_all: Annotated[bool, typer.Option("--all", help="Include system, retry and dead-letter topics.")] = False,
    cluster: Annotated[
        str | None,
        typer.Option(
            "-c", "--cluster", metavar="NAME", help="Only topics of this cluster.", autocompletion=live("cluster")
        ),
    ] = None,
    output: OutputOption = OutputFormat.table,
) -> None:
    """List topics with their brokers, and the queues on each broker: 4, 8 where brokers have different numbers."""
    from pymq.operations.topic import listing as work

    records, missing = session.ask_reachable(lambda admin: work.list_topics(admin, show_all, cluster))
    shown = records if output is not OutputFormat.table else [_with_queues_of_each(record) for record in records]
    columns = [
        Column("topic"),
        Column("brokers"),
        Column("read_queues", "READ QUEUES", right=True),
        Column("write_queues", "WRITE QUEUES", right=True),
        Column("perm"),
    ]
    print_listing(shown, columns, output, "no topics: pymq topic create NAME or a first send creates one")
    end_partial(missing)


def _with_queues_of_each(record: dict[str, Any]) -> dict[str, Any]:
    """Return a listed topic with one number of queues, or those of its brokers in their order."""
    names = ("read_queues", "write_queues")
    each = {name: [queues[name] for queues in record["queues"]] for name in names}
    return record | {name: each[name] if record[name] is None else record[name] for name in names}


@app.command(
    epilog=examples(
        "pymq topic create orders",
        "pymq topic create orders -c DefaultCluster --wq 16 --rq 16",
        "pymq topic create audit -b broker-a --wq 4 --rq 4 --perm RW",
        "pymq topic create transfers --type transaction",
        "pymq topic create measurements --queue-type BatchCQ",
        "pymq topic create sessions --type lite --expire 1d",
    )
)
def create(
    session: Session,
    name: NewTopicArgument,
    clusters: ClustersOption = None,
    brokers: BrokersOption = None,
    write_queues: WriteQueuesOption = None,
    read_queues: ReadQueuesOption = None,
    perm: PermOption = None,
    message_type: Annotated[
        str | None,
        typer.Option(
            "--type",
            metavar="TYPE",
            help="Take only messages of this type: normal, fifo, delay, transaction, lite; the default, mixed, of all.",
        ),
    ] = None,
    expire: ExpireOption = None,
    queue_type: Annotated[
        str | None,
        typer.Option(
            "--queue-type",
            metavar="TYPE",
            help="Keep a batch as one record (BatchCQ), or as single messages (SimpleCQ, the default); stays so.",
        ),
    ] = None,
    dry_run: DryRunOption = False,
    output: OutputOption = OutputFormat.table,
) -> None:
    """Create a topic on every broker of a cluster (-c), or on single brokers (-b).

    Without both, on every broker of the only cluster. The default is 8 queues on each broker; --wq and --rq change it.
    """
    from pymq.model.names import check_topic
    from pymq.model.tables import PERM_READ_WRITE, TopicConfig
    from pymq.operations.topic import listing as work

    write = write_queues if write_queues is not None else read_queues if read_queues is not None else DEFAULT_QUEUES
    config = TopicConfig(
        topic_name=check_topic(name),
        write_queue_nums=write,
        read_queue_nums=read_queues if read_queues is not None else write,
        perm=parse_perm(perm) or PERM_READ_WRITE,
        attributes=work.type_attribute(message_type)
        | work.expiration_attribute(expire)
        | work.queue_type_attribute(queue_type),
    )
    records, unreached = session.ask_all(
        lambda admin: work.create_topic(admin, config, clusters or [], brokers or [], is_dry=dry_run)
    )
    print_listing(records, CONFIG_COLUMNS, output)
    _warn_of_unread_queues(records)
    _note_dry_run(dry_run)
    end_partial(unreached, is_change=True)


@app.command(
    epilog=examples(
        "pymq topic update orders --wq 8",
        "pymq topic update orders --rq 8 --perm R",
        "pymq topic update --wq 8        (asks for the topic)",
        "pymq topic update orders -b broker-a --wq 4",
    )
)
def update(
    session: Session,
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="The topic; without it the command asks.", autocompletion=live("topic")),
    ] = None,
    clusters: ClustersOption = None,
    brokers: BrokersOption = None,
    write_queues: WriteQueuesOption = None,
    read_queues: ReadQueuesOption = None,
    perm: PermOption = None,
    message_type: Annotated[
        str | None,
        typer.Option(
            "--type",
            metavar="TYPE",
            help="The only type taken: normal, fifo, delay, transaction, priority, lite; mixed.",
        ),
    ] = None,
    expire: ExpireOption = None,
    force: Annotated[bool, typer.Option("--force", help="Lower --rq also when groups have messages to read.")] = False,
    dry_run: DryRunOption = False,
    output: OutputOption = OutputFormat.table,
) -> None:
    """Change a topic's queues, permission or type; other settings stay as they are on each broker.

    pymq topic shrink lowers the number of queues without loss.
    """
    from pymq.errors import UsageError
    from pymq.operations.topic import listing as work

    attributes = work.type_attribute(message_type) | work.expiration_attribute(expire)
    if write_queues is None and read_queues is None and perm is None and not attributes:
        raise UsageError("nothing to change: give --wq, --rq, --perm, --type or --expire")
    changes = {
        "write_queues": write_queues,
        "read_queues": read_queues,
        "perm": parse_perm(perm),
        "attributes": attributes,
    }
    topic = name if name is not None else _choose_topic(session)
    records, unreached = session.ask_all(
        lambda admin: work.update_topic(
            admin, topic, clusters or [], brokers or [], changes, force=force, is_dry=dry_run
        ),
    )
    shows_type = message_type is not None
    columns = [*CONFIG_COLUMNS, *([Column("attributes", "TYPE", show=work.type_text)] if shows_type else []), BEFORE]
    print_listing(records, columns, output)
    _warn_of_unread_queues(records)
    _note_dry_run(dry_run)
    end_partial({} if brokers else unreached, is_change=True)


app.command(
    epilog=examples(
        "pymq topic shrink orders --to 8             shows the plan",
        "pymq topic shrink orders --to 8 --yes",
        "pymq topic shrink orders --to 8 --yes --without old-audit",
    )
)(shrink)
app.command(epilog=examples("pymq topic expand orders --to 16", "pymq topic expand orders --to 16 -b broker-a"))(expand)
app.command(
    epilog=examples(
        "pymq topic order orders",
        "pymq topic order orders --set 'broker-a:4;broker-b:8'",
        "pymq topic order orders --delete",
    )
)(order)


def _note_dry_run(dry_run: bool) -> None:
    if dry_run:
        print_note("nothing was changed: this is a dry run")


def _warn_of_unread_queues(records: list[dict[str, Any]]) -> None:
    """Warn about queues that are written but not read: their messages would seem lost."""
    for record in records:
        read, write = record["read_queues"], record["write_queues"]
        if write > read:
            which = f"queues {read} to {write - 1}" if write - read > 1 else f"queue {read}"
            print_note(
                f"pymq: warning: {which} on {record['broker']} will be written but not read: raise --rq to {write}"
            )


def _choose_topic(session: Session) -> str:
    """Ask for the topic on a terminal. Without one it prints the list and raises UsageError."""
    import sys

    from pymq.errors import NotFoundError, UsageError
    from pymq.operations.topic import listing as work

    names = session.ask(work.user_topics)
    if not names:
        raise NotFoundError("there are no topics yet: pymq topic create NAME creates one")
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        print_line("\n".join(names))
        raise UsageError("no topic is given: name one of those listed, pymq topic update NAME …")
    for number, name in enumerate(names, 1):
        print_note(f"{number:4}  {name}")
    answer = str(typer.prompt("Topic (number or name)", err=True)).strip()
    if answer in names:
        return answer
    if answer.isdigit() and 1 <= int(answer) <= len(names):
        return names[int(answer) - 1]
    raise UsageError(f"{answer!r} is not one of the listed topics: type a number or a name from the list")


@app.command(
    epilog=examples(
        "pymq topic delete orders",
        "pymq topic delete orders --yes --with-retries",
        "pymq topic delete orders -b broker-a --yes --force",
    )
)
def delete(
    session: Session,
    name: TopicArgument,
    clusters: ClustersOption = None,
    brokers: BrokersOption = None,
    yes: ConfirmOption = False,
    force: Annotated[bool, typer.Option("--force", help="With --yes: also when groups read it or are behind.")] = False,
    with_retries: Annotated[
        bool,
        typer.Option("--with-retries", help="Also the retry and dead-letter topics of groups that read only this one."),
    ] = False,
    dry_run: DryRunOption = False,
    output: OutputOption = OutputFormat.table,
) -> None:
    """Delete a topic and its messages, everywhere or only on the named brokers.

    It shows what would be lost and which groups still read the topic, and asks.
    """
    from pymq.operations.topic import deletion as work

    async def run(admin: Admin) -> tuple[list[str], dict[str, Any]]:
        plan = await work.plan(admin, name, clusters or [], brokers or [], with_retries=with_retries)
        if dry_run:
            return [plan.text()], plan.record(applied=False)
        if yes:
            plan.check(is_forced=force)
        else:
            print_note(plan.text())
            confirm(
                f"Delete topic {name!r}?",
                unasked=f"deleting {name!r} deletes its messages: give --yes to confirm",
                on_no="nothing is deleted",
            )
        return await work.delete(admin, plan), plan.record(applied=True)

    (lines, record), unreached = session.ask_all(run)
    if not print_data(record, output):
        print_line("\n".join(lines))
    if dry_run:
        print_note("nothing was deleted: this is a dry run")
    end_partial({} if brokers else unreached, is_change=True)


@app.command(epilog=examples("pymq topic describe orders", "pymq topic describe orders -o json"), watched=True)
def describe(session: Session, name: TopicArgument, output: OutputOption = OutputFormat.table) -> None:
    """Show a topic: its configuration on each broker, its number of messages, and the groups that read it."""
    from pymq.operations.topic import listing as work

    described, unreached = session.ask_reachable(lambda admin: work.describe_topic(admin, name))
    if not print_data(described, output):
        groups = ", ".join(described["groups"]) or "none"
        print_line(f"{described['topic']}: {format_count(described['messages'], 'message')}, groups: {groups}\n")
        print_listing(described["brokers"], [*CONFIG_COLUMNS, Column("messages", right=True)], output)
    end_partial(unreached)


@app.command(epilog=examples("pymq topic route orders", "pymq topic route orders -o json"), watched=True)
def route(session: Session, name: TopicArgument, output: OutputOption = OutputFormat.table) -> None:
    """Show the route of a topic that the name server gives to clients."""
    from pymq.operations.topic import listing as work

    records = session.ask(lambda admin: work.topic_route(admin, name))
    columns = [
        Column("broker"),
        Column("cluster"),
        Column("broker_id", "ID", right=True),
        *CONFIG_COLUMNS[1:],
    ]
    print_listing(records, columns, output)


@app.command(epilog=examples("pymq topic stats orders", "pymq topic stats orders -o json"), watched=True)
def stats(session: Session, name: TopicArgument, output: OutputOption = OutputFormat.table) -> None:
    """Show the first offset, the next offset and the time of the last message of every queue."""
    from pymq.operations.times import local_time
    from pymq.operations.topic import listing as work

    records, unreached = session.ask_reachable(lambda admin: work.topic_queues(admin, name))
    columns = [
        Column("broker"),
        Column("queue", right=True),
        Column("min_offset", right=True),
        Column("max_offset", right=True),
        Column("messages", right=True),
        Column("last_message_ms", "LAST MESSAGE", show=local_time),
    ]
    print_listing(records, columns, output, "the topic has no readable queues")
    end_partial(unreached)
