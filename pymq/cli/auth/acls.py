"""``pymq auth acl``: list, show, create, update and delete the rules of users."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from pymq.cli.auth.common import ResourceArgument, UserArgument, confirm_loss, run_change
from pymq.cli.auth.users import RULE_COLUMNS
from pymq.cli.common.options import (
    BrokersOption,
    ClustersOption,
    ConfirmOption,
    DryRunOption,
    OutputOption,
)
from pymq.cli.common.session import Session, end_partial
from pymq.cli.declared import examples, new_app
from pymq.cli.output import OutputFormat, print_listing

if TYPE_CHECKING:
    from pymq.client.admin import Admin

app = new_app("List, show, create, update and delete the rules of users.")

ActionsOption = Annotated[
    list[str],
    typer.Option(
        "--action", "-a", metavar="ACTION", help="Pub, Sub, Create, Update, Delete, Get, List or All; repeatable."
    ),
]
SourcesOption = Annotated[
    list[str] | None,
    typer.Option("--from", metavar="ADDRESS|CIDR", help="Only from there; repeatable. Default: from everywhere."),
]
DenyOption = Annotated[bool, typer.Option("--deny", help="Forbid it. Of equally exact rules it wins.")]
DefaultOption = Annotated[
    bool, typer.Option("--default", help="A default rule: it counts where no custom rule is about the request.")
]


@app.callback(
    epilog=examples(
        "pymq auth acl list", "pymq auth acl create billing Topic:orders -a Sub", "pymq auth acl show billing"
    )
)
def acl() -> None:
    """List, show, create, update and delete the rules that say what users may do."""


@app.command("list", epilog=examples("pymq auth acl list", "pymq auth acl list --resource orders"))
def list_acls(
    session: Session,
    resource: Annotated[
        str | None, typer.Option("--resource", metavar="TEXT", help="Only rules whose resource contains this text.")
    ] = None,
    clusters: ClustersOption = None,
    brokers: BrokersOption = None,
    output: OutputOption = OutputFormat.table,
) -> None:
    """List the rules of all users."""
    from pymq.operations.auth import users as work
    from pymq.operations.where import Where

    where = Where(clusters or [], brokers or [])
    records, unreached = session.ask_reachable(lambda admin: work.rules(admin, where, None, resource))
    print_listing(records, RULE_COLUMNS, output, "no rules: only users of type Super may do anything")
    end_partial(unreached)


@app.command(epilog=examples("pymq auth acl show billing"))
def show(
    session: Session,
    name: UserArgument,
    clusters: ClustersOption = None,
    brokers: BrokersOption = None,
    output: OutputOption = OutputFormat.table,
) -> None:
    """Show the rules of a user."""
    from pymq.operations.auth import users as work
    from pymq.operations.where import Where

    where = Where(clusters or [], brokers or [])

    async def run(admin: Admin) -> list[dict[str, Any]]:
        await work.check_there(admin, where, name, is_there=True)
        return await work.rules(admin, where, name)

    records, unreached = session.ask_reachable(run)
    print_listing(records, RULE_COLUMNS, output, f"{name} has no rules")
    end_partial(unreached)


@app.command(
    epilog=examples(
        "pymq auth acl create billing Topic:orders -a Sub",
        "pymq auth acl create billing Group:billing* -a Sub -a Get --from 10.0.0.0/8",
        "pymq auth acl create billing Topic:secret* -a All --deny",
    )
)
def create(
    session: Session,
    name: UserArgument,
    resource: ResourceArgument,
    actions: ActionsOption,
    sources: SourcesOption = None,
    denies: DenyOption = False,
    is_default: DefaultOption = False,
    clusters: ClustersOption = None,
    brokers: BrokersOption = None,
    dry_run: DryRunOption = False,
    output: OutputOption = OutputFormat.table,
) -> None:
    """Give a user a rule about a resource."""
    _put(
        name,
        resource,
        actions,
        sources,
        denies,
        is_default,
        clusters,
        brokers,
        dry_run,
        output,
        session,
        is_new=True,
    )


@app.command(epilog=examples("pymq auth acl update billing Topic:orders -a Pub -a Sub"))
def update(
    session: Session,
    name: UserArgument,
    resource: ResourceArgument,
    actions: ActionsOption,
    sources: SourcesOption = None,
    denies: DenyOption = False,
    is_default: DefaultOption = False,
    clusters: ClustersOption = None,
    brokers: BrokersOption = None,
    dry_run: DryRunOption = False,
    output: OutputOption = OutputFormat.table,
) -> None:
    """Replace a user's rule about a resource; its other rules stay."""
    _put(name, resource, actions, sources, denies, is_default, clusters, brokers, dry_run, output, session)


@app.command(epilog=examples("pymq auth acl delete billing Topic:orders", "pymq auth acl delete billing --yes"))
def delete(
    session: Session,
    name: UserArgument,
    resource: Annotated[str | None, typer.Argument(metavar="[RESOURCE]", help="Without it, all rules go.")] = None,
    is_default: DefaultOption = False,
    clusters: ClustersOption = None,
    brokers: BrokersOption = None,
    yes: ConfirmOption = False,
    dry_run: DryRunOption = False,
    output: OutputOption = OutputFormat.table,
) -> None:
    """Take a rule from a user, or all of them."""
    from pymq.operations.auth import changes
    from pymq.operations.where import Where

    where = Where(clusters or [], brokers or [])

    def ask() -> None:
        if resource is None:
            confirm_loss(f"Delete all rules of user {name!r}?", yes=yes)

    async def run(admin: Admin) -> dict[str, Any]:
        return await changes.delete_rules(
            admin, where, name, resource, is_default=is_default, is_dry=dry_run, before_change=ask
        )

    what = f"{resource or 'all rules'} of {name}"
    run_change(session, run, output, f"deleted {what}", f"would delete {what}")


def _put(
    name: str,
    resource: str,
    actions: list[str],
    sources: list[str] | None,
    denies: bool,
    is_default: bool,
    clusters: list[str] | None,
    brokers: list[str] | None,
    dry_run: bool,
    output: OutputFormat,
    session: Session,
    *,
    is_new: bool = False,
) -> None:
    from pymq.operations.auth import changes
    from pymq.operations.auth import users as work
    from pymq.operations.where import Where

    where = Where(clusters or [], brokers or [])
    given = [action for one in actions for action in one.split(",")]
    entry = work.entry(resource, given, sources or [], denies=denies)

    async def run(admin: Admin) -> dict[str, Any]:
        return await changes.put_rule(admin, where, name, entry, is_default=is_default, is_new=is_new, is_dry=dry_run)

    text = f"{entry.decision} {', '.join(entry.actions or [])} on {entry.resource} for {name}"
    run_change(session, run, output, text, f"would be: {text}")
