"""``pymq doctor``: the command and its text for people."""

from __future__ import annotations

import shutil
import sys
import textwrap
from typing import TYPE_CHECKING, Annotated

import typer

from pymq.cli.common.options import (
    OutputOption,
    known_brokers,
    request_credentials,
    split_addresses,
)
from pymq.cli.common.session import Session
from pymq.cli.declared import examples, new_app
from pymq.cli.output import OutputFormat, is_styled, print_data, print_line, printable
from pymq.errors import EXIT_FAILED, EXIT_UNREACHABLE
from pymq.units import format_count

if TYPE_CHECKING:
    from pymq.operations.doctor.finding import Check, Finding
    from pymq.operations.doctor.state import ClusterState

app = new_app()
OBSERVE_DEFAULT_S = 6.0
TIMEOUT_DEFAULT_S = 5.0
_COLORS = {"problem": "31;1", "warning": "33;1", "note": "36", "unknown": "2"}
_NAMES = {"unknown": "not known"}


@app.command(
    epilog=examples(
        "pymq doctor",
        "pymq doctor --namesrv 10.0.0.1:9876;10.0.0.2:9876",
        "pymq doctor --check disk --check stuck --strict",
        "pymq doctor -o json",
    )
)
def doctor(
    session: Session,
    names: Annotated[
        list[str] | None, typer.Option("--check", metavar="NAME", help="Only this check; repeatable. Default: all.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Warnings fail the command, too.")] = False,
    observe: Annotated[
        float,
        typer.Option("--observe", metavar="SECONDS", min=0, help="How long to watch groups that are behind; 0: don't."),
    ] = OBSERVE_DEFAULT_S,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", min=0.1, help="How long to wait for each answer.")
    ] = TIMEOUT_DEFAULT_S,
    output: OutputOption = OutputFormat.table,
) -> None:
    """Look at the whole cluster, and name what is wrong with the next step. Changes nothing.

    Works on PyMQ and on Apache clusters; what a server doesn't report is shown as not known, and is no failure. Exit
    code 0: no problem; 1: a problem (with --strict also a warning); 4: no name server answers.
    """
    import asyncio

    from pymq.client.admin import Admin
    from pymq.clock import SystemClock
    from pymq.operations.doctor import registry
    from pymq.operations.doctor.gather import Gatherer, SocketProbe

    checks = registry.chosen(registry.all_checks(), names or ())
    known = known_brokers.get()
    gatherer = Gatherer(
        split_addresses(session.namesrv),
        lambda addresses: Admin(addresses, timeout_s=timeout, credentials=request_credentials.get()),
        clock=SystemClock(),
        probe=SocketProbe(),
        observe_ms=int(observe * 1000),
        missing=lambda listed: known.missing_in(session.namesrv, listed) if known is not None else {},
    )
    state = asyncio.run(gatherer.state())
    found = registry.run_checks(checks, state)
    if not print_data(registry.report_record(state, checks, found), output):
        _print(state, checks, found)
    raise typer.Exit(_exit_code(state, [finding for _, finding in found], strict))


def _exit_code(state: ClusterState, findings: list[Finding], strict: bool) -> int:
    from pymq.operations.doctor.finding import Severity
    from pymq.operations.doctor.registry import worst

    if not state.is_reachable:
        return EXIT_UNREACHABLE
    failing = (Severity.PROBLEM, Severity.WARNING) if strict else (Severity.PROBLEM,)
    return EXIT_FAILED if worst(findings) in failing else 0


def _print(state: ClusterState, checks: list[Check], found: list[tuple[str, Finding]]) -> None:
    width = shutil.get_terminal_size((80, 24)).columns if sys.stdout.isatty() else 0
    for name, finding in found:
        severity = finding.severity.value
        head = printable(f"{_NAMES.get(severity, severity).upper()}  {name}: {finding.subject}")
        print(f"\033[{_COLORS[severity]}m{head}\033[0m" if is_styled() else head)
        _print_text(finding.text, width)
        if finding.next_step:
            _print_text(f"next: {finding.next_step}", width)
    with_findings = {name for name, _ in found}
    fine = [check.name for check in checks if check.name not in with_findings]
    if found and fine:
        print_line()
    if fine:
        _print_text(f"{'fine' if state.is_reachable else 'not checked'}: {', '.join(fine)}", width, "")
    _print_text(_summary(state, [finding for _, finding in found]), width, "")


def _print_text(text: str, width: int, indent: str = "  ") -> None:
    """Print a text, folded on a terminal; further lines are indented more."""
    clean = printable(text)
    if width:
        lines = textwrap.wrap(clean, max(width - 1, 40), initial_indent=indent, subsequent_indent=indent + "  ")
        print_line("\n".join(lines))
    else:
        print_line(indent + clean)


def _summary(state: ClusterState, findings: list[Finding]) -> str:
    found = [
        format_count(sum(finding.severity.value == name for finding in findings), name)
        for name in ("problem", "warning", "note")
    ]
    unknown = sum(finding.severity.value == "unknown" for finding in findings)
    seen = [
        format_count(len(state.name_servers), "name server"),
        format_count(len(state.brokers), "broker"),
        format_count(len(state.groups), "consumer group"),
    ]
    return f"{', '.join(found)}, {unknown} not known ({', '.join(seen)})"
