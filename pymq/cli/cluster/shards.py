"""``pymq cluster shards`` and ``pymq cluster rebalance``: where leaders are, and how to spread them evenly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from pymq.cli.common.cells import shown_bytes
from pymq.cli.common.confirm import confirm
from pymq.cli.common.live import live
from pymq.cli.common.options import ConfirmOption, DryRunOption, OutputOption
from pymq.cli.common.session import Session, end_partial
from pymq.cli.output import Column, OutputFormat, print_data, print_line, print_listing, print_note, print_table

if TYPE_CHECKING:
    from pymq.client.admin import Admin

SHARD_COLUMNS = [
    Column("broker", "SHARD"),
    Column("kind", folds=False),
    Column("leader", folds=False),
    Column("address", folds=False),
    Column("epoch", right=True),
    Column("followers_text", "FOLLOWERS"),
    Column("lag_bytes", "LAG", right=True, show=shown_bytes),
    Column("log_end", right=True, extra=True),
]
MOVE_COLUMNS = [
    Column("broker", "SHARD"),
    Column("from_node", "FROM", folds=False),
    Column("from_host", "HOST"),
    Column("to_node", "TO", folds=False),
    Column("to_host", "HOST"),
]
ClusterOption = Annotated[
    str | None,
    typer.Option("--cluster", "-c", metavar="NAME", help="Only this cluster.", autocompletion=live("cluster")),
]


def shards(session: Session, cluster: ClusterOption = None, output: OutputOption = OutputFormat.table) -> None:
    """List every group of brokers: its leader, followers, newest epoch, and the greatest lag of a follower.

    A group is a Raft group, or a master with its slaves. FOLLOWERS 1/2 means that one of two keeps up.
    """
    from pymq.operations.raft import shards as work

    (records, silent), missing = session.ask_reachable(lambda admin: work.list_shards(admin, cluster))
    shown = [record | {"followers_text": _followers_text(record)} for record in records]
    if not print_data(records, output):
        print_listing(shown, SHARD_COLUMNS, output, "no broker is registered: start one, or wait for it to register")
        for record in records:
            for problem in record["problems"]:
                print_line(f"  {record['broker']}: {problem}")
    end_partial({**missing, **silent})


def _followers_text(record: dict[str, Any]) -> str:
    followers = record["followers"]
    return f"{sum(follower['in_sync'] is True for follower in followers)}/{len(followers)}"


def rebalance(
    session: Session,
    cluster: ClusterOption = None,
    yes: ConfirmOption = False,
    dry_run: DryRunOption = False,
    output: OutputOption = OutputFormat.table,
) -> None:
    """Spread the leaders of all Raft groups evenly over the hosts, or over the nodes if all run on one host.

    It moves as few leaders as possible, one after the other, and only to voters that keep up. Nothing is lost. Exit
    code 4: a leader could not be moved; those before it were.
    """
    from pymq.clock import SystemClock
    from pymq.operations.raft import shards as work

    async def run(admin: Admin) -> dict[str, Any]:
        plan = await work.plan_rebalance(admin, cluster)
        if output is OutputFormat.table:
            _print_moves(plan)
        if dry_run or not plan["moves"]:
            return plan
        if not yes:
            confirm(f"Move {len(plan['moves'])} leaders?")
        return await work.move_leaders(admin, plan, SystemClock())

    done = session.ask(run)
    if print_data(done, output):
        return
    if dry_run:
        print_note("nothing was changed: this is a dry run")
        return
    for move in done["moves"]:
        print_line(f"{move['to_node']} leads {move['broker']} in term {move['term']}, after {move['took_ms']} ms")


def _print_moves(plan: dict[str, Any]) -> None:
    for place in plan["places"]:
        print_line(f"{place['place']}: {place['leaders_before']} leaders now, {place['leaders_after']} then")
    if plan["moves"]:
        print_line()
        print_table(plan["moves"], MOVE_COLUMNS)
    else:
        print_line("the leaders are spread evenly: nothing to move")
    for note in plan["notes"]:
        print_note(f"pymq: warning: {note}")
