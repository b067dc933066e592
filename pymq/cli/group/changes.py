"""``pymq group create``, ``update``, ``enable``, ``disable``, ``delete``."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pymq.cli.common.confirm import confirm
from pymq.cli.common.options import (
    BrokersOption,
    ClustersOption,
    ConfirmOption,
    DryRunOption,
    GroupArgument,
    OutputOption,
)
from pymq.cli.common.session import Session, end_partial
from pymq.cli.output import Column, OutputFormat, print_data, print_line, print_listing, print_note
from pymq.errors import UsageError

if TYPE_CHECKING:
    from pymq.client.admin import Admin
    from pymq.operations.group.changes import Deletion


class LiteModel(StrEnum):
    """How members share the lite topics of a group."""

    shared = "shared"
    exclusive = "exclusive"


NewGroupArgument = Annotated[str, typer.Argument(metavar="NAME", help="The consumer group.")]
RetriesOption = Annotated[
    int | None,
    typer.Option(
        "--retries", metavar="N", min=-1, max=10_000, help="Tries before a message is a dead letter; -1 for no limit."
    ),
]
RetryQueuesOption = Annotated[
    int | None, typer.Option("--retry-queues", metavar="N", min=0, max=64, help="Queues of the retry topic.")
]
OrderedOption = Annotated[
    bool | None, typer.Option("--ordered/--not-ordered", help="A message that fails holds its queue up.")
]
BroadcastOption = Annotated[
    bool | None, typer.Option("--broadcast/--no-broadcast", help="Members may consume by broadcast.")
]
FromMinOption = Annotated[
    bool | None, typer.Option("--from-min/--no-from-min", help="Members may begin at the first offset.")
]
NotifyOption = Annotated[
    bool | None, typer.Option("--notify/--no-notify", help="Members learn at once when others come or go.")
]
TimeoutMinutesOption = Annotated[
    int | None,
    typer.Option("--consume-timeout", metavar="MINUTES", min=1, max=1440, help="How long a message may be handled."),
]
SlowBrokerOption = Annotated[
    int | None,
    typer.Option("--slow-broker-id", metavar="ID", min=0, help="The broker that slow members are sent to; 0: stay."),
]
LiteParentOption = Annotated[
    str | None,
    typer.Option("--lite", metavar="TOPIC", help="The group reads lite topics of this topic, of type lite."),
]
LiteModelOption = Annotated[
    LiteModel | None,
    typer.Option("--lite-model", help="Exclusive: a new subscriber of a lite topic takes it from the one before."),
]
LiteWildcardOption = Annotated[
    bool | None, typer.Option("--lite-all/--lite-named", help="Members get all lite topics, or those that they name.")
]

_COLUMNS = [
    Column("broker"),
    Column("address"),
    Column("changes", show=lambda changes: ", ".join(changes) or "none"),
]


def create(
    session: Session,
    name: NewGroupArgument,
    clusters: ClustersOption = None,
    brokers: BrokersOption = None,
    retries: RetriesOption = None,
    retry_queues: RetryQueuesOption = None,
    ordered: OrderedOption = None,
    broadcast: BroadcastOption = None,
    from_min: FromMinOption = None,
    notify: NotifyOption = None,
    consume_timeout: TimeoutMinutesOption = None,
    slow_broker_id: SlowBrokerOption = None,
    lite_parent: LiteParentOption = None,
    lite_model: LiteModelOption = None,
    lite_wildcard: LiteWildcardOption = None,
    dry_run: DryRunOption = False,
    output: OutputOption = OutputFormat.table,
) -> None:
    """Create a group on every broker of a cluster (-c), or on single brokers (-b).

    Without both, on every broker of the only cluster.
    """
    settings = _given(
        retry_max=retries,
        retry_queues=retry_queues,
        ordered=ordered,
        broadcast_allowed=broadcast,
        from_min_allowed=from_min,
        notify_members=notify,
        consume_timeout_min=consume_timeout,
        slow_broker_id=slow_broker_id,
        **_lite_settings(lite_parent, lite_model, lite_wildcard),
    )
    _put(name, clusters, brokers, settings, dry_run, output, session, is_new=True)


def update(
    session: Session,
    name: GroupArgument,
    clusters: ClustersOption = None,
    brokers: BrokersOption = None,
    retries: RetriesOption = None,
    retry_queues: RetryQueuesOption = None,
    ordered: OrderedOption = None,
    broadcast: BroadcastOption = None,
    from_min: FromMinOption = None,
    notify: NotifyOption = None,
    consume_timeout: TimeoutMinutesOption = None,
    slow_broker_id: SlowBrokerOption = None,
    lite_parent: LiteParentOption = None,
    lite_model: LiteModelOption = None,
    lite_wildcard: LiteWildcardOption = None,
    dry_run: DryRunOption = False,
    output: OutputOption = OutputFormat.table,
) -> None:
    """Change a group's settings and keep the others, by default on every broker that has it."""
    settings = _given(
        retry_max=retries,
        retry_queues=retry_queues,
        ordered=ordered,
        broadcast_allowed=broadcast,
        from_min_allowed=from_min,
        notify_members=notify,
        consume_timeout_min=consume_timeout,
        slow_broker_id=slow_broker_id,
        **_lite_settings(lite_parent, lite_model, lite_wildcard),
    )
    if not settings:
        raise UsageError("nothing to change is given: pymq group update --help lists the settings")
    _put(name, clusters, brokers, settings, dry_run, output, session)


def enable(
    session: Session,
    name: GroupArgument,
    clusters: ClustersOption = None,
    brokers: BrokersOption = None,
    dry_run: DryRunOption = False,
    output: OutputOption = OutputFormat.table,
) -> None:
    """Let a group consume again, by default from every broker that has it."""
    _put(name, clusters, brokers, {"enabled": True}, dry_run, output, session)


def disable(
    session: Session,
    name: GroupArgument,
    clusters: ClustersOption = None,
    brokers: BrokersOption = None,
    dry_run: DryRunOption = False,
    output: OutputOption = OutputFormat.table,
) -> None:
    """Stop a group from consuming, by default from every broker that has it; its offsets stay."""
    _put(name, clusters, brokers, {"enabled": False}, dry_run, output, session)


def delete(
    session: Session,
    name: GroupArgument,
    clusters: ClustersOption = None,
    brokers: BrokersOption = None,
    with_offsets: Annotated[
        bool, typer.Option("--with-offsets/--keep-offsets", help="Also the committed offsets (the default).")
    ] = True,
    with_topics: Annotated[
        bool, typer.Option("--with-topics", help="Also the group's retry and dead-letter topics, with their messages.")
    ] = False,
    yes: ConfirmOption = False,
    force: Annotated[bool, typer.Option("--force", help="With --yes: also while members are online.")] = False,
    dry_run: DryRunOption = False,
    output: OutputOption = OutputFormat.table,
) -> None:
    """Delete a group, everywhere or only on the named brokers.

    It shows who is online and what is unread, and asks.
    """
    from pymq.operations.group import changes as work
    from pymq.operations.where import Where

    where = Where(clusters or [], brokers or [])

    async def run(admin: Admin) -> dict[str, Any]:
        plan = await work.plan_delete(admin, name, where, with_topics=with_topics)
        if not dry_run:
            _confirm(plan, yes=yes, force=force)
            await work.delete(admin, plan, with_offsets=with_offsets)
        elif output is OutputFormat.table:
            print_note(plan.text())
        return plan.record(is_applied=not dry_run)

    record, unreached = session.ask_all(run)
    if not print_data(record, output):
        done = "would delete" if dry_run else "deleted"
        print_line(f"{done} {name} on {', '.join(record['brokers'])}")
        for topic in record["topics"]:
            print_line(f"{done} {topic}")
    end_partial({} if brokers else unreached, is_change=True)


def _confirm(plan: Deletion, *, yes: bool, force: bool) -> None:
    if yes:
        plan.check(is_forced=force)
        return
    print_note(plan.text())
    confirm(
        f"Delete group {plan.group!r}?",
        unasked=f"deleting group {plan.group!r} loses its place: give --yes to confirm",
        on_no="nothing is deleted",
    )


def _put(
    name: str,
    clusters: list[str] | None,
    brokers: list[str] | None,
    settings: dict[str, Any],
    dry_run: bool,
    output: OutputFormat,
    session: Session,
    *,
    is_new: bool = False,
) -> None:
    """Create a group or change it, and show what changed where."""
    from pymq.operations.group import changes as work
    from pymq.operations.where import Where

    put = work.create if is_new else work.update
    where = Where(clusters or [], brokers or [])
    records, unreached = session.ask_reachable(lambda admin: put(admin, name, where, settings, dry_run=dry_run))
    print_listing(records, _COLUMNS, output)
    if dry_run:
        print_note("nothing was changed: leave --dry-run out to apply this")
    end_partial(unreached, is_change=True)


def _lite_settings(parent: str | None, model: LiteModel | None, is_wildcard: bool | None) -> dict[str, str | None]:
    """Return the attributes of a group that reads lite topics, as brokers spell their values."""
    return {
        "lite_parent": parent,
        "lite_model": None if model is None else model.capitalize(),
        "lite_wildcard": None if is_wildcard is None else str(is_wildcard).lower(),
    }


def _given(**settings: Any) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if value is not None}
