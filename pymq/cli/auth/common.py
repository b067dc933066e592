"""What the commands of ``pymq auth`` share: options, the secret of a user, and how a change is run and shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from pymq.cli.common.confirm import confirm
from pymq.cli.common.session import Session, end_partial
from pymq.cli.output import OutputFormat, print_data, print_line, print_note
from pymq.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from pymq.client.admin import Admin

UserArgument = Annotated[str, typer.Argument(metavar="USER", help="The user's name, its access key.")]
ResourceArgument = Annotated[
    str, typer.Argument(metavar="RESOURCE", help="Such as Topic:orders, Topic:order*, Group:*, Cluster:*, or *.")
]
SecretFromOption = Annotated[
    str | None,
    typer.Option("--secret-from", metavar="env:PREFIX|file:PATH", help="Credentials whose secret it gets."),
]
WriteOption = Annotated[
    str | None, typer.Option("--write", metavar="FILE", help="Make a secret, and this file with it (mode 0600).")
]


def secret_of(name: str, secret_from: str | None, write: str | None) -> tuple[str | None, Path | None]:
    """Return the secret that a user gets, and the file that is to be written with it; None for no new secret.

    Raises UsageError for both options at once, and for credentials of another user.
    """
    from pathlib import Path

    from pymq.security.credentials import Credentials

    if secret_from and write:
        raise UsageError("--secret-from and --write exclude each other: give one of them")
    if write:
        from pymq.offline.auth_files import new_secret

        return new_secret(), Path(write).expanduser().absolute()
    if not secret_from:
        return None, None
    credentials = Credentials.find(secret_from)
    assert credentials is not None
    if credentials.access_key != name:
        raise UsageError(f"the access key there is {credentials.access_key!r}: it must be the user's name, {name!r}")
    return credentials.reveal(), None


def write_secret(file: Path | None, name: str, secret: str | None) -> None:
    """Write a user's new secret into its file, if it is to have one."""
    if file is not None and secret is not None:
        from pymq.offline.auth_files import write_credentials

        write_credentials(file, name, secret)


def run_change(
    session: Session, run: Callable[[Admin], Awaitable[dict[str, Any]]], output: OutputFormat, done: str, would: str
) -> None:
    """Make a change and show its record. ``done`` says what it was, ``would`` what a dry run would do."""
    record, unreached = session.ask_all(run)
    if not print_data(record, output):
        print_line(f"{done if record['applied'] else would} on {', '.join(record['brokers'])}")
    if not record["applied"]:
        print_note("nothing was changed: leave --dry-run out to apply this")
    end_partial(unreached, is_change=True)


def confirm_loss(question: str, *, yes: bool) -> None:
    """Ask before something is lost, unless the operator has said yes."""
    if not yes:
        confirm(question, unasked=f"{question} Give --yes to confirm", on_no="nothing is changed")
