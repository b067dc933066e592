"""``pymq tail``: shows messages from any point on, and new ones as they arrive."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from pymq.cli.filter_option import ExpressionOption, PluginOption, SqlOption, ViaOption, parse_plugin
from pymq.cli.lazy import examples, new_app
from pymq.cli.options import DEFAULT_NAMESRV, InflateRatioOption, NamesrvOption
from pymq.cli.tail_start import DEFAULT_LAST_COUNT, Start, StartKind, expand_short_forms, parse_start
from pymq.errors import UsageError
from pymq.model.compression import INFLATION_RATIO_MAX

app = new_app()

DEFAULT_GROUP = "TOOLS_CONSUMER"
FORMATS = ("text", "json", "raw")


class TailCommand(TyperCommand):
    """Accepts ``-100`` and ``-15m`` beside options."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, expand_short_forms(args))


@app.command(
    cls=TailCommand,
    epilog=examples(
        "pymq tail                                  (all topics of applications, following)",
        "pymq tail orders -100                      (the last 100, then new ones)",
        "pymq tail orders payments -15m --tag paid",
        "pymq tail orders --sql \"amount > 100 AND country IN ('DE', 'FR')\"",
        "pymq tail orders --filter 'jsonpath:$.items[?@.price > 5]'",
        "pymq tail orders --filter regex --expr 'total.: 9' --via filter-server",
        "pymq tail orders --from start --no-follow -o json",
        "pymq tail orders --from 1000 --queue 0 --count 5",
        "pymq tail orders --grep 'id.: 17' -o raw",
    ),
)
def tail(
    topics: Annotated[
        list[str] | None, typer.Argument(metavar="TOPIC", help="Topics; without one all topics of applications.")
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="WHERE", help="start, end, group, an offset, -15m, or a time (2026-01-31T12:00)."
        ),
    ] = None,
    last: Annotated[
        int | None,
        typer.Option(
            "--last", min=0, metavar="N", help=f"Begin with the last N messages; -N for short. [{DEFAULT_LAST_COUNT}]"
        ),
    ] = None,
    count: Annotated[
        int | None, typer.Option("--count", "-n", metavar="N", min=1, help="Stop after N messages.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow/--no-follow", "-f/-F", help="Wait for new messages, or stop at the current end.")
    ] = True,
    tag: Annotated[
        str, typer.Option("--tag", metavar="TAGS", help="Only these tags: 'A || B'. The broker filters.")
    ] = "*",
    sql: SqlOption = None,
    plugin: PluginOption = None,
    expression: ExpressionOption = None,
    via: ViaOption = None,
    key: Annotated[str | None, typer.Option("--key", metavar="KEY", help="Only messages with this key.")] = None,
    grep: Annotated[
        str | None, typer.Option("--grep", metavar="REGEX", help="Only messages whose body matches.")
    ] = None,
    queue: Annotated[
        int | None, typer.Option("--queue", metavar="N", min=0, help="Only queues with this number.")
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            "--group",
            metavar="NAME",
            help="Begin at the offset of this consumer group, or at the start if it has none.",
        ),
    ] = None,
    commit: Annotated[bool, typer.Option("--commit", help="Commit the offsets shown, for --group.")] = False,
    output: Annotated[str, typer.Option("--output", "-o", metavar="text|json|raw", help="Output format.")] = "text",
    inflate_ratio: InflateRatioOption = INFLATION_RATIO_MAX,
    namesrv: NamesrvOption = DEFAULT_NAMESRV,
) -> None:
    """Show messages. Commits no offsets without --commit.

    Text lines are: store time, topic, broker/queue@offset, [tag], keys, body. JSON lines keep JSON bodies as JSON.
    """
    begin = _start(start, last, group)
    if commit and group is None:
        raise UsageError("--commit needs a group to commit for: give --group NAME")
    if output not in FORMATS:
        raise UsageError(f"-o {output!r}: use one of {', '.join(FORMATS)}")

    import sys

    from pymq.cli import tail_work as work
    from pymq.cli.message_text import MessageFormat, formatter
    from pymq.cli.output import is_styled
    from pymq.cli.session import until_done_or_stopped
    from pymq.net.runtime import run

    options = work.TailOptions(
        topics=list(dict.fromkeys(topics or [])),
        start=begin,
        count=count,
        follow=follow,
        selection=work.MessageSelection(tag, key, grep, sql, parse_plugin(plugin, expression, via)),
        queue_id=queue,
        group=group or DEFAULT_GROUP,
        commit=commit,
        namesrv=namesrv,
    )
    to_bytes = formatter(MessageFormat(output), color=is_styled(), inflation_ratio_max=inflate_ratio)
    run(until_done_or_stopped(work.Tail(options, to_bytes, sys.stdout.buffer).run()))


def _start(text: str | None, last: int | None, group: str | None) -> Start:
    if text is not None and last is not None:
        raise UsageError("--from and --last exclude each other: give one of them")
    if text is not None:
        begin = parse_start(text, time.time_ns() // 1_000_000)
        if begin.kind is StartKind.GROUP and group is None:
            raise UsageError("--from group needs --group NAME")
        return begin
    if last is not None:
        return Start(StartKind.LAST, last)
    return Start(StartKind.GROUP) if group is not None else Start(StartKind.LAST, DEFAULT_LAST_COUNT)
