"""``pymq auth user``: list, show, create, update and delete the users of brokers."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pymq.cli.auth.common import (
    SecretFromOption,
    UserArgument,
    WriteOption,
    confirm_loss,
    run_change,
    secret_of,
    write_secret,
)
from pymq.cli.common.options import (
    BrokersOption,
    ClustersOption,
    ConfirmOption,
    DryRunOption,
    OutputOption,
)
from pymq.cli.common.session import Session, end_partial
from pymq.cli.declared import examples, new_app
from pymq.cli.output import Column, OutputFormat, print_data, print_fields, print_listing, print_section

if TYPE_CHECKING:
    from pymq.client.admin import Admin

app = new_app("List, show, create, update and delete users.")

USER_COLUMNS = [Column("user"), Column("type"), Column("enabled"), Column("brokers")]
RULE_COLUMNS = [
    Column("user"),
    Column("resource"),
    Column("actions"),
    Column("effect"),
    Column("sources", show=lambda sources: ", ".join(sources) or "everywhere"),
    Column("level"),
    Column("brokers"),
]


@app.callback(epilog=examples("pymq auth user list", "pymq auth user create billing --write billing.yml"))
def user() -> None:
    """List, show, create, update and delete users of brokers that keep them (authenticationEnabled)."""


@app.command("list", epilog=examples("pymq auth user list", "pymq auth user list bill -o json"))
def list_users(
    session: Session,
    text: Annotated[str | None, typer.Argument(metavar="[TEXT]", help="Only names that contain this text.")] = None,
    clusters: ClustersOption = None,
    brokers: BrokersOption = None,
    output: OutputOption = OutputFormat.table,
) -> None:
    """List users. No password is shown."""
    from pymq.operations.auth import users as work
    from pymq.operations.where import Where

    where = Where(clusters or [], brokers or [])
    records, unreached = session.ask_reachable(lambda admin: work.users(admin, where, text))
    print_listing(records, USER_COLUMNS, output, "no users: pymq auth user create makes one")
    end_partial(unreached)


@app.command(epilog=examples("pymq auth user show billing"))
def show(
    session: Session,
    name: UserArgument,
    clusters: ClustersOption = None,
    brokers: BrokersOption = None,
    output: OutputOption = OutputFormat.table,
) -> None:
    """Show a user and its rules."""
    from pymq.operations.auth import users as work
    from pymq.operations.where import Where

    where = Where(clusters or [], brokers or [])
    record, unreached = session.ask_reachable(lambda admin: work.user(admin, where, name))
    if not print_data(record, output):
        print_fields({key: record[key] for key in ("user", "type", "enabled", "brokers", "differs")})
        print_section("rules", record["rules"], RULE_COLUMNS[1:], "none: it may do nothing")
    end_partial(unreached)


@app.command(
    epilog=examples(
        "pymq auth user create billing --write ~/.config/pymq/billing.yml",
        "pymq auth user create billing --secret-from file:/etc/pymq/billing.yml",
        "pymq auth user create second-admin --super --write admin2.yml",
    )
)
def create(
    session: Session,
    name: UserArgument,
    is_super: Annotated[bool, typer.Option("--super", help="An administrator: it may do everything.")] = False,
    secret_from: SecretFromOption = None,
    write: WriteOption = None,
    clusters: ClustersOption = None,
    brokers: BrokersOption = None,
    dry_run: DryRunOption = False,
    output: OutputOption = OutputFormat.table,
) -> None:
    """Make a user on every broker of a cluster (-c), or on single brokers (-b). It may do nothing yet."""
    from pymq.errors import UsageError
    from pymq.operations.auth import changes
    from pymq.operations.where import Where

    secret, file = secret_of(name, secret_from, write)
    if secret is None:
        raise UsageError("the user needs a secret: give --write FILE for a new one, or --secret-from")
    where, kind = Where(clusters or [], brokers or []), changes.SUPER if is_super else changes.NORMAL

    async def run(admin: Admin) -> dict[str, Any]:
        # First the file: a user without its secret is of no use.
        keep = partial(write_secret, file, name, secret)
        made = await changes.create_user(admin, where, name, secret, kind, is_dry=dry_run, before_change=keep)
        return made | {"credentials_file": str(file) if file else None}

    run_change(session, run, output, f"made user {name}", f"would make user {name}")


@app.command(
    epilog=examples(
        "pymq auth user update billing --disable",
        "pymq auth user update billing --write billing-2.yml",
        "pymq auth user update billing --type Super",
    )
)
def update(
    session: Session,
    name: UserArgument,
    kind: Annotated[str | None, typer.Option("--type", metavar="Normal|Super", help="Its type.")] = None,
    enabled: Annotated[bool | None, typer.Option("--enable/--disable", help="Whether it may do anything.")] = None,
    secret_from: SecretFromOption = None,
    write: WriteOption = None,
    clusters: ClustersOption = None,
    brokers: BrokersOption = None,
    dry_run: DryRunOption = False,
    output: OutputOption = OutputFormat.table,
) -> None:
    """Change secret, type or state of a user. It counts at once, for waiting pulls too."""
    from pymq.errors import UsageError
    from pymq.operations.auth import changes
    from pymq.operations.where import Where

    if kind is not None and (kind := kind.capitalize()) not in changes.TYPES:
        raise UsageError(f"--type {kind[:40]}: write Normal or Super")
    secret, file = secret_of(name, secret_from, write)
    if kind is None and enabled is None and secret is None:
        raise UsageError("nothing to change is given: pymq auth user update --help lists the options")
    where = Where(clusters or [], brokers or [])

    async def run(admin: Admin) -> dict[str, Any]:
        keep = partial(write_secret, file, name, secret)
        changed = await changes.update_user(
            admin, where, name, kind=kind, enabled=enabled, secret=secret, is_dry=dry_run, before_change=keep
        )
        return changed | {"credentials_file": str(file) if file else None}

    run_change(session, run, output, f"changed user {name}", f"would change user {name}")


@app.command(epilog=examples("pymq auth user delete billing --yes"))
def delete(
    session: Session,
    name: UserArgument,
    clusters: ClustersOption = None,
    brokers: BrokersOption = None,
    yes: ConfirmOption = False,
    dry_run: DryRunOption = False,
    output: OutputOption = OutputFormat.table,
) -> None:
    """Delete a user with its rules. It loses its rights at once."""
    from pymq.operations.auth import changes
    from pymq.operations.where import Where

    where = Where(clusters or [], brokers or [])
    ask = partial(confirm_loss, f"Delete user {name!r} with its rules?", yes=yes)

    async def run(admin: Admin) -> dict[str, Any]:
        return await changes.delete_user(admin, where, name, is_dry=dry_run, before_change=ask)

    run_change(session, run, output, f"deleted user {name}", f"would delete user {name}")
