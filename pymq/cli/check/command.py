"""``pymq check``: broker, lag, disk, replica, raft."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pymq.cli.common.cells import shown_bytes
from pymq.cli.common.live import live
from pymq.cli.common.options import OutputOption
from pymq.cli.common.session import Session, missing_brokers
from pymq.cli.declared import examples, new_app
from pymq.cli.output import Column, OutputFormat, print_data, print_line, print_table

if TYPE_CHECKING:
    from pymq.client.admin import Admin
    from pymq.operations.check.line import Limits, Result

app = new_app("Check one thing for monitoring: exit code 0 ok, 1 warning, 2 critical, 3 unknown.")
SAMPLES_DEFAULT = 16
TIMEOUT_DEFAULT_S = 5.0

COLUMNS = [
    Column("cluster"),
    Column("broker"),
    Column("slave_id", "SLAVE", right=True),
    Column("address"),
    Column("lag_bytes", "LAG", right=True, show=shown_bytes),
    Column("in_sync", "IN SYNC"),
    Column("compared_bytes", "COMPARED", right=True, show=shown_bytes),
    Column("ok", "OK"),
]

NameArgument = Annotated[
    str | None, typer.Argument(metavar="NAME", help="Only brokers of this name.", autocompletion=live("broker"))
]
TimeoutOption = Annotated[
    float, typer.Option("--timeout", metavar="SECONDS", min=0.1, help="How long to wait for each answer.")
]


@app.callback()
def group() -> None:
    """Check one thing for monitoring.

    Prints one line with performance data, as Nagios' plugins do, and a line for each bad part if there are several.
    Exit code 0: ok, 1: warning, 2: critical, 3: unknown, also if no name server answers.
    """


@app.command(epilog=examples("pymq check broker", "pymq check broker -w 200ms -c 2s --count 4"), watched=True)
def broker(
    session: Session,
    name: NameArgument = None,
    warning: Annotated[
        str | None, typer.Option("--warning", "-w", metavar="TIME", help="Longest time for an answer: 200ms, 2s.")
    ] = None,
    critical: Annotated[
        str | None, typer.Option("--critical", "-c", metavar="TIME", help="Longest time for an answer: 200ms, 2s.")
    ] = None,
    count: Annotated[
        int, typer.Option("--count", metavar="N", min=0, help="How many brokers must be registered; default one.")
    ] = 0,
    timeout: TimeoutOption = TIMEOUT_DEFAULT_S,
    output: OutputOption = OutputFormat.table,
) -> None:
    """Check that every registered broker answers and takes messages, and that every name has a master.

    Critical: a master refuses all messages, for whatever reason. Warning: brokerPermission forbids writing or reading.
    A broker that stops is no longer registered: --count notices it, and a context that names the brokers.
    """

    async def work(admin: Admin) -> Result:
        from pymq.clock import SystemClock
        from pymq.operations.check.figures import add_missing, check_brokers

        limits = _limits(warning, critical, _duration_ms)
        result = await check_brokers(admin, name, limits_ms=limits, count_min=count, clock=SystemClock())
        return add_missing(result, await missing_brokers(admin, session.namesrv), name)

    _finish("broker", session, work, timeout, output)


@app.command(
    epilog=examples(
        "pymq check lag billing -w 1000 -c 10000",
        "pymq check lag billing --topic orders -w 1000,5m -c 10000,1h",
        "pymq check lag -c 100000                      (all groups)",
    ),
    watched=True,
)
def lag(
    session: Session,
    name: Annotated[
        str | None, typer.Argument(metavar="GROUP", help="Only this group.", autocompletion=live("group"))
    ] = None,
    topic: Annotated[
        str | None, typer.Option("--topic", metavar="TOPIC", help="Only this topic.", autocompletion=live("topic"))
    ] = None,
    warning: Annotated[
        str | None, typer.Option("--warning", "-w", metavar="N[,TIME]", help="Most messages, and time, behind.")
    ] = None,
    critical: Annotated[
        str | None,
        typer.Option("--critical", "-c", metavar="N[,TIME]", help="Most messages, and time, behind."),
    ] = None,
    timeout: TimeoutOption = TIMEOUT_DEFAULT_S,
    output: OutputOption = OutputFormat.table,
) -> None:
    """Check how far consumer groups are behind, in messages and in time.

    The time is the age of the last message that the group consumed, in queues with further ones.
    """

    async def work(admin: Admin) -> Result:
        from pymq.clock import SystemClock
        from pymq.operations.check.figures import check_lag
        from pymq.operations.check.line import Limits

        (warn, warn_ms), (crit, crit_ms) = _lag_limit(warning), _lag_limit(critical)
        return await check_lag(
            admin, name, topic, limits=Limits(warn, crit), limits_ms=Limits(warn_ms, crit_ms), clock=SystemClock()
        )

    _finish("lag", session, work, timeout, output)


@app.command(epilog=examples("pymq check disk", "pymq check disk broker-a -w 70 -c 85"), watched=True)
def disk(
    session: Session,
    name: NameArgument = None,
    warning: Annotated[
        float, typer.Option("--warning", "-w", metavar="PERCENT", min=0, max=100, help="Largest share in use.")
    ] = 75,
    critical: Annotated[
        float, typer.Option("--critical", "-c", metavar="PERCENT", min=0, max=100, help="Largest share in use.")
    ] = 90,
    timeout: TimeoutOption = TIMEOUT_DEFAULT_S,
    output: OutputOption = OutputFormat.table,
) -> None:
    """Check how full the disks are that brokers store messages on.

    Critical, too: a broker takes no messages because its disk is full or fails.
    """

    async def work(admin: Admin) -> Result:
        from pymq.clock import SystemClock
        from pymq.operations.check.figures import check_disks
        from pymq.operations.check.line import Limits

        return await check_disks(admin, name, limits_percent=Limits(warning, critical), clock=SystemClock())

    _finish("disk", session, work, timeout, output)


@app.command(
    epilog=examples(
        "pymq check replica", "pymq check replica broker-a --full", "pymq check replica -w 1MB -c 64MB -o json"
    ),
    watched=True,
)
def replica(
    session: Session,
    name: NameArgument = None,
    full: Annotated[bool, typer.Option("--full", help="Compare the whole log, not only samples.")] = False,
    samples: Annotated[
        int, typer.Option("--samples", metavar="N", min=0, max=10_000, help="Number of places in the log to compare.")
    ] = SAMPLES_DEFAULT,
    warning: Annotated[
        str | None, typer.Option("--warning", "-w", metavar="SIZE", help="Most bytes that a slave may lack: 64MB.")
    ] = None,
    critical: Annotated[
        str | None, typer.Option("--critical", "-c", metavar="SIZE", help="Most bytes that a slave may lack: 64MB.")
    ] = None,
    count: Annotated[
        int, typer.Option("--count", metavar="N", min=0, help="How many slaves each master must have; default none.")
    ] = 0,
    timeout: TimeoutOption = TIMEOUT_DEFAULT_S,
    output: OutputOption = OutputFormat.table,
) -> None:
    """Check that slaves follow their masters, and that their logs and tables are equal.

    Critical: slaves that are gone, or that sends wait for. A master without slaves is OK, as it is for the doctor;
    --count says how many it must have.

    Compares digests of the end of the log and of random places in it. RocketMQ brokers have no digests, so for them it
    compares only offsets and tables.
    """
    records: list[dict[str, Any]] = []

    async def work(admin: Admin) -> Result:
        from pymq.operations.check.replica import as_result, check_replicas
        from pymq.units import parse_size_bytes

        limits = _limits(warning, critical, parse_size_bytes)
        records.extend(await check_replicas(admin, name, samples, full=full, count_min=count))
        return as_result(records, limits)

    def details() -> None:
        print_table(records, COLUMNS)
        for record in records:
            label = f"{record['broker']} slave {record['slave_id']}" if record["slave_id"] else record["broker"]
            for line in record["notes"]:
                print_line(f"{label}: {line}")

    _finish("replica", session, work, timeout, output, details=details, record=lambda: records)


@app.command(epilog=examples("pymq check raft", "pymq check raft shard-a -w 1MB -c 64MB"), watched=True)
def raft(
    session: Session,
    name: NameArgument = None,
    warning: Annotated[
        str | None, typer.Option("--warning", "-w", metavar="SIZE", help="Most bytes that a member may lack: 64MB.")
    ] = None,
    critical: Annotated[
        str | None, typer.Option("--critical", "-c", metavar="SIZE", help="Most bytes that a member may lack: 64MB.")
    ] = None,
    timeout: TimeoutOption = TIMEOUT_DEFAULT_S,
    output: OutputOption = OutputFormat.table,
) -> None:
    """Check that every Raft group has a leader that hears all members, and that they keep up.

    Critical: no leader, or a node with a problem of its own. Warning: a member that is silent, out of date, or no voter
    yet: the group works, and stands fewer failures.
    """

    async def work(admin: Admin) -> Result:
        from pymq.operations.check.raft import check_raft
        from pymq.units import parse_size_bytes

        return await check_raft(admin, name, limits=_limits(warning, critical, parse_size_bytes))

    _finish("raft", session, work, timeout, output)


def _finish(
    check: str,
    session: Session,
    work: Callable[[Admin], Coroutine[Any, Any, Result]],
    timeout_s: float,
    output: OutputFormat,
    *,
    details: Callable[[], None] | None = None,
    record: Callable[[], Any] | None = None,
) -> None:
    """Print the result and exit with its level; an error is UNKNOWN, as monitoring expects."""
    from pymq.errors import PymqError
    from pymq.operations.check.line import Level, Part, Result

    failed = False
    try:
        result = session.ask(work, timeout_s)
    except PymqError as error:
        failed = True
        result = Result(check, "", [Part("cluster", Level.UNKNOWN, str(error))])
    if not print_data(result.as_record() if failed or record is None else record(), output):
        print_line("\n".join(result.lines()))
        if details is not None and not failed:
            details()
    raise typer.Exit(int(result.level))


def _limits(warning: str | None, critical: str | None, parse: Callable[[str], float]) -> Limits:
    from pymq.operations.check.line import parse_limits

    return parse_limits(warning, critical, parse)


def _duration_ms(text: str) -> float:
    from pymq.units import parse_duration_ms

    return parse_duration_ms(text)


def _lag_limit(text: str | None) -> tuple[float | None, float | None]:
    """Parse ``1000``, ``5m`` or ``1000,5m`` into messages and ms. Raises UsageError."""
    from pymq.errors import UsageError
    from pymq.units import parse_duration_ms

    count: float | None = None
    age_ms: float | None = None
    for part in (text or "").split(","):
        word = part.strip()
        if word.isdigit():
            count = int(word)
        elif word:
            age_ms = parse_duration_ms(word)
        elif text is not None:
            raise UsageError(f"{text!r} is not a limit: write messages, a time, or both: 1000,5m")
    return count, age_ms
