"""``pymq broker undrain``: gives a broker its write permission back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from pymq.cli.broker.drain import BrokerArgument, DryRunOption, print_plan
from pymq.cli.common.options import ApplyOption, OutputOption
from pymq.cli.common.session import Session
from pymq.cli.declared import examples, new_app
from pymq.cli.output import OutputFormat, print_data, print_line, print_note

if TYPE_CHECKING:
    from pymq.client.admin import Admin
    from pymq.operations.broker.drain import State

app: typer.Typer = new_app()


@app.command(epilog=examples("pymq broker undrain broker-a", "pymq broker undrain broker-a --yes"))
def undrain(
    session: Session,
    name: BrokerArgument,
    yes: ApplyOption = False,
    dry_run: DryRunOption = False,
    output: OutputOption = OutputFormat.table,
) -> None:
    """Give a broker its write permission back, at every name server.

    Producers use it from their next look-up on, within 30 s. Topics that the broker itself holds read-only stay so.
    Exit code 6: not every name server did it.
    """
    from pymq.operations.broker import drain as work
    from pymq.operations.broker.machine_drain import draining_of

    async def run(admin: Admin) -> tuple[State, bool]:
        run = await draining_of(admin, name, settle_s=0)
        state = await run.look()
        if dry_run or not yes:
            return state, False
        return await run.undrain(), True

    state, is_done = session.ask(run)
    record = work.record(state) | {"applied": is_done}
    if print_data(record, output):
        return
    if is_done:
        print_line(f"{name} is writable again in {len(state.view.writable)} of {len(state.view.topics)} topics")
        return
    print_plan(record)
    print_note("\nnothing is changed: --yes gives all of them the write permission")
