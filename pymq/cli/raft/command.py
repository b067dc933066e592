"""``pymq raft``: status, transfer, add, remove; secret and term, on a member's machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from pymq.cli.common.cells import shown_bytes, shown_ms
from pymq.cli.common.confirm import confirm
from pymq.cli.common.live import live
from pymq.cli.common.options import ConfirmOption, DryRunOption, OutputOption
from pymq.cli.common.session import Session
from pymq.cli.declared import examples, new_app
from pymq.cli.output import Column, OutputFormat, print_data, print_fields, print_line, print_note, print_table
from pymq.operations.times import local_time

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pymq.client.admin import Admin
    from pymq.operations.raft.changes import Plan

app = new_app("Show and change groups of brokers that elect their leader themselves.")

GroupName = Annotated[
    str,
    typer.Argument(
        metavar="NAME|HOST:PORT", help="The group's brokerName, or a broker in it.", autocompletion=live("broker")
    ),
]
NodeArgument = Annotated[str, typer.Argument(metavar="NODE", help="The node's id in dLegerPeers: n2.")]

MEMBER_COLUMNS = [
    Column("node", folds=False),
    Column("broker_id", "ID", right=True),
    Column("address", folds=False),
    Column("kind", folds=False),
    Column("role", folds=False),
    Column("term", right=True),
    Column("lag_bytes", "LAG", right=True, show=shown_bytes),
    Column("silent_ms", "SILENT", right=True, show=shown_ms),
    Column("log_end", right=True, extra=True),
    Column("confirm_offset", "CONFIRMED", right=True, extra=True),
    Column("elections", right=True, extra=True),
    Column("disk_id", "DISK", folds=False, extra=True),
]


@app.callback()
def group() -> None:
    """Show and change Raft groups: brokers of one name that elect their leader themselves.

    A send to such a group is answered once a majority of its voters has the message.
    """


@app.command(
    epilog=examples("pymq raft status", "pymq raft status shard-a", "pymq raft status 127.0.0.1:10911 -o json"),
    watched=True,
)
def status(
    session: Session,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME|HOST:PORT", help="Only this group, or the one of this broker.", autocompletion=live("broker")
        ),
    ] = None,
    output: OutputOption = OutputFormat.table,
) -> None:
    """Show the leader, the members and their lag, and what is wrong.

    LAG is what a member's disk lacks of the leader's log, SILENT how long the leader has not heard it. Exit code 3: no
    such group; 4: none of its brokers answers.
    """
    from pymq.operations.raft import changes as work

    records = session.ask(lambda admin: work.status(admin, name))
    if print_data(records, output):
        return
    if not records:
        print_note("no broker is in a Raft group: pymq docs raft shows how to start one")
    for number, record in enumerate(records):
        if number:
            print_line()
        _print_group(record)


def _print_group(record: dict[str, Any]) -> None:
    change = record["last_change"]
    leader = f"{record['leader']} at {record['leader_address']}" if record["leader"] else "none"
    voters = f"{record['heard_voters']} of {record['voters']} answer, {record['majority']} are a majority"
    fields = {
        "group": f"{record['broker']} (cluster {record['cluster']})",
        "leader": f"{leader}, term {record['term']}",
        "voters": voters,
        "confirmed up to": record["confirm_offset"],
        "last change": f"{local_time(change['time_ms'])}: {change['why']}" if change else None,
        "problems": "\n".join(record["problems"]) or "none",
    }
    if record["transfer_target"]:
        fields["hands over to"] = record["transfer_target"]
    if record["candidates"]:
        fields["wait to join"] = ", ".join(record["candidates"])
    print_fields(fields)
    print_line()
    print_table(record["members"], MEMBER_COLUMNS)
    for member in record["members"]:
        if member["problem"]:
            print_line(f"  {member['node']}: {member['problem']}")


@app.command(
    epilog=examples(
        "pymq raft transfer shard-a n2",
        "pymq raft transfer shard-a              (to the preferred, or the most up-to-date node)",
        "pymq raft transfer shard-a n2 --dry-run",
    )
)
def transfer(
    session: Session,
    name: GroupName,
    node: Annotated[str | None, typer.Argument(metavar="NODE", help="The voter that leads then: n2.")] = None,
    dry_run: DryRunOption = False,
    output: OutputOption = OutputFormat.table,
) -> None:
    """Hand leadership over to another voter, for example before work on the leader's machine.

    The leader takes no sends until the node has its whole log; nothing is lost. Exit code 5: the node can't lead now;
    4: there is no leader, or the node leads not within 5 s.
    """
    from pymq.clock import SystemClock
    from pymq.operations.raft import changes as work

    async def run(admin: Admin, plan: Plan) -> dict[str, Any]:
        return await work.transfer(admin, plan, SystemClock())

    done = _carry_out(session, lambda admin: work.plan_transfer(admin, name, node), run, dry_run, output)
    if done is not None:
        print_line(f"{done['node']} leads {done['broker']} in term {done['term']}, after {done['took_ms']} ms")


@app.command(
    epilog=examples(
        "pymq raft add shard-a n3", "pymq raft add shard-a n4 --observer", "pymq raft add shard-a n3 --dry-run"
    )
)
def add(
    session: Session,
    name: GroupName,
    node: NodeArgument,
    observer: Annotated[
        bool, typer.Option("--observer", help="It only copies, and never votes: a follower for reading.")
    ] = False,
    dry_run: DryRunOption = False,
    output: OutputOption = OutputFormat.table,
) -> None:
    """Take a running node into the group: a learner first, a voter once it has the log.

    The node must be in dLegerPeers of all nodes, itself included. Exit code 5: the leader refuses it.
    """
    from pymq.operations.raft import changes as work

    done = _carry_out(
        session, lambda admin: work.plan_add(admin, name, node, as_observer=observer), work.change, dry_run, output
    )
    if done is not None:
        print_line(f"{done['broker']} is {', '.join(done['after'])} now")
        if not observer:
            print_note(f"{node} becomes a voter when it has the log: pymq raft status {done['broker']} shows it")


@app.command(epilog=examples("pymq raft remove shard-a n3", "pymq raft remove shard-a n3 --yes"))
def remove(
    session: Session,
    name: GroupName,
    node: NodeArgument,
    yes: ConfirmOption = False,
    dry_run: DryRunOption = False,
    output: OutputOption = OutputFormat.table,
) -> None:
    """Take a node out of the group for good, running or not.

    Take it out of dLegerPeers of the others afterwards. Exit code 5: the leader refuses it.
    """
    from pymq.operations.raft import changes as work

    async def run(admin: Admin, plan: Plan) -> dict[str, Any]:
        if not yes:
            confirm(f"Remove {node} from {plan.group.name}?")
        return await work.change(admin, plan)

    done = _carry_out(session, lambda admin: work.plan_remove(admin, name, node), run, dry_run, output)
    if done is not None:
        print_line(f"{done['broker']} is {', '.join(done['after'])} now")


@app.command(epilog=examples("pymq raft secret /etc/pymq/raft.secret", "pymq raft secret /etc/pymq/raft.secret --next"))
def secret(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The file for raftSecretFile.")],
    change: Annotated[
        bool, typer.Option("--next", help="Take the next of the three steps that replace the file's secret.")
    ] = False,
) -> None:
    """Make the file with the secret by which the members of a group prove each other, or replace the secret in it.

    Members notice a change within 1 s, and accept each other after each step. The secret is never printed.
    """
    import random

    from pymq.cli.raft import files
    from pymq.store.disk.fs import RealFiles

    done = files.change_secret if change else files.make_secret
    print_line(done(RealFiles(), file, random.SystemRandom()))


@app.command(
    epilog=examples(
        "pymq raft term ~/.pymq/shard-a-n0", "pymq raft term ~/.pymq/shard-a-n0 --set 12", "pymq raft term DIR -o json"
    )
)
def term(
    directory: Annotated[str, typer.Argument(metavar="DIR", help="Data directory of a member that is stopped.")],
    wanted: Annotated[
        int | None,
        typer.Option("--set", metavar="TERM", min=0, help="Set this term. Stop all members, and set the same on each."),
    ] = None,
    yes: ConfirmOption = False,
    dry_run: DryRunOption = False,
    output: OutputOption = OutputFormat.table,
) -> None:
    """Show the term on a stopped member's disk, or set it: the way back from a term that no election can have reached.

    With members that run, a member could vote twice in one term.
    """
    from pymq.cli.raft import files
    from pymq.store.disk.fs import RealFiles

    if wanted is not None and not yes and not dry_run:
        confirm(f"Are all members stopped, and will each get term {wanted}?")
    record = files.stored_term(RealFiles(), directory, None if dry_run else wanted).record()
    if not print_data(record, output):
        print_fields({key.replace("_", " "): value for key, value in record.items()})
        if dry_run and wanted is not None:
            print_note(f"nothing was changed: this is a dry run, and {wanted} would be set")


def _carry_out(
    session: Session,
    make_plan: Callable[[Admin], Awaitable[Plan]],
    run: Callable[[Admin, Plan], Awaitable[dict[str, Any]]],
    dry_run: bool,
    output: OutputFormat,
) -> dict[str, Any] | None:
    """Show the plan and carry it out. Returns what was done, None when there is nothing to tell people."""

    async def work(admin: Admin) -> dict[str, Any]:
        plan = await make_plan(admin)
        if output is OutputFormat.table:
            _print_plan(plan)
        return plan.record() if dry_run else await run(admin, plan)

    done = session.ask(work)
    if print_data(done, output):
        return None
    if dry_run:
        print_note("nothing was changed: this is a dry run")
        return None
    return done


def _print_plan(plan: Plan) -> None:
    print_line(f"{plan.group.name}, term {plan.request.term}: {', '.join(plan.before)} -> {', '.join(plan.after)}")
    for warning in plan.warnings:
        print_note(f"pymq: warning: {warning}")
