"""``pymq broker rejoin``: allows a slave to truncate a large divergent tail, so that it can follow its master."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from pymq.cli.common.confirm import confirm
from pymq.cli.common.live import live
from pymq.cli.common.options import ConfirmOption, DryRunOption
from pymq.cli.common.session import Session
from pymq.cli.declared import examples, new_app
from pymq.cli.output import print_line

if TYPE_CHECKING:
    from pymq.client.admin import Admin
    from pymq.wire.bodies_replication import RoleAnswer

app = new_app()


@app.command(epilog=examples("pymq broker rejoin 10.0.0.2:10911 --truncate-to 1073741824"))
def rejoin(
    session: Session,
    broker: Annotated[
        str,
        typer.Argument(metavar="HOST:PORT", help="The slave that stopped following.", autocompletion=live("broker")),
    ],
    truncate_to: Annotated[
        int, typer.Option("--truncate-to", metavar="OFFSET", min=0, help="The offset that its status names.")
    ],
    yes: ConfirmOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Let a slave truncate its log to follow its master.

    A slave truncates at most haTruncationMax bytes by itself, and never its whole log. Beyond that it waits for this
    command. The truncated part is kept in divergent/. Exit code 5: the slave waits for no such permission; 4: it does
    not answer.
    """
    if dry_run:
        print_line(session.ask(lambda admin: _plan(admin, broker, truncate_to)))
        return
    if not yes:
        confirm(f"Truncate the log of {broker} to end at {truncate_to}?")

    async def run(admin: Admin) -> RoleAnswer:
        from pymq.wire.bodies_replication import TRUNCATE, RoleRequest

        return await admin.replication.change_role(broker, RoleRequest(action=TRUNCATE, truncate_to=truncate_to))

    done = session.ask(run)
    print_line(f"{broker} truncates its log from {done.log_end} to {truncate_to} and follows its master")


async def _plan(admin: Admin, broker: str, truncate_to: int) -> str:
    from pymq.units import format_bytes

    log_end = (await admin.replication.status(broker)).log_end
    gone = max(0, log_end - truncate_to)
    return f"would truncate the log of {broker} from {log_end} to {truncate_to}: {format_bytes(gone)}"
