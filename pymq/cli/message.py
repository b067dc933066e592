"""``pymq message``: get by id, query by key."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from pymq.cli.lazy import examples, new_app
from pymq.cli.options import DEFAULT_NAMESRV, NamesrvOption
from pymq.cli.session import with_admin
from pymq.errors import UsageError

app = new_app("Look messages up by id or by key.")

FormatOption = Annotated[
    str, typer.Option("--output", "-o", metavar="text|json|raw", help="Whole message, JSON line, or body only.")
]


@app.command(
    epilog=examples(
        "pymq message get 7F00000100002A9F0000000000000000",
        "pymq message get 7F00000100002A9F0000000000000000 --topic orders -o raw",
    )
)
def get(
    message_id: Annotated[str, typer.Argument(metavar="ID", help="A message id, as send and tail print it.")],
    topic: Annotated[
        str | None,
        typer.Option(
            "--topic", metavar="NAME", help="The topic; required for an id that a producer made (message_id)."
        ),
    ] = None,
    output: FormatOption = "text",
    namesrv: NamesrvOption = DEFAULT_NAMESRV,
) -> None:
    """Show one message by its id: the broker's (offset_message_id), or with --topic the producer's (message_id)."""
    from pymq.cli import message_work as work

    work.check_format(output)
    found = with_admin(namesrv, lambda admin: work.find_by_id(admin, message_id, topic))
    work.print_messages(found, output, whole=True)


@app.command(
    epilog=examples(
        "pymq message query orders --key order-17",
        "pymq message query orders --key order-17 --from -1h -o json",
    )
)
def query(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic to search.")],
    key: Annotated[str, typer.Option("--key", metavar="KEY", help="One of the messages' keys.")],
    begin: Annotated[
        str | None,
        typer.Option("--from", metavar="TIME", help="Only messages stored at or after: -1h, 2026-01-31T12:00."),
    ] = None,
    end: Annotated[str | None, typer.Option("--to", metavar="TIME", help="Only messages stored before.")] = None,
    count_max: Annotated[
        int, typer.Option("--max", metavar="N", min=1, max=10_000, help="Show at most N messages.")
    ] = 64,
    output: FormatOption = "text",
    namesrv: NamesrvOption = DEFAULT_NAMESRV,
) -> None:
    """Show the messages with a key, oldest first."""
    from pymq.cli import message_work as work
    from pymq.errors import NotFoundError
    from pymq.units import parse_time_ms

    work.check_format(output)
    now_ms = time.time_ns() // 1_000_000
    begin_ms = parse_time_ms(begin, now_ms) if begin else 0
    end_ms = parse_time_ms(end, now_ms) if end else work.TIME_MAX_MS
    if begin_ms > end_ms:
        raise UsageError("--from is later than --to: give a --from before --to")
    found = with_admin(
        namesrv,
        lambda admin: admin.messages.by_key(topic, key, count_max=count_max, begin_ms=begin_ms, end_ms=end_ms),
    )
    if not found:
        raise NotFoundError(f"no message with key {key!r} in {topic}")
    work.print_messages(found, output, whole=False)
