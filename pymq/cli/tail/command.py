"""``pymq tail``: shows messages from any point on, and new ones as they arrive."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from pymq.cli.common.filter_option import ExpressionOption, PluginOption, SqlOption, ViaOption
from pymq.cli.common.live import live
from pymq.cli.common.options import DEFAULT_NAMESRV, InflateRatioOption, MessageOutputOption, NamesrvOption
from pymq.cli.declared import examples, new_app
from pymq.cli.output import MessageOutput, print_note
from pymq.errors import UsageError
from pymq.model.compression import INFLATION_RATIO_MAX
from pymq.operations.filters import parse_plugin
from pymq.operations.queues import parse_queue_choice
from pymq.operations.start import DEFAULT_LAST_COUNT, Start, StartKind, expand_short_forms, parse_start, parse_stop

app = new_app()

DEFAULT_GROUP = "TOOLS_CONSUMER"


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
        "pymq tail 'order*' --from -1h --to -30m       (all topics that match)",
        "pymq tail --retries billing --dead-letters billing",
        "pymq tail orders --where 'price >= 5' --fields id,user.name",
        "pymq tail orders --format '%d %t %k %[user.name]'",
        "pymq tail events --decode gzip,avro --schema event.avsc",
        "pymq tail events --decode registry --registry http://127.0.0.1:8081",
        "pymq tail orders --sql \"amount > 100 AND country IN ('DE', 'FR')\"",
        "pymq tail orders --filter 'jsonpath:$.items[?@.price > 5]'",
        "pymq tail orders --filter regex --expr 'total.: 9' --via filter-server",
        "pymq tail orders --from start --no-follow -o jsonl",
        "pymq tail orders --from 1000 --queue 0 --count 5",
        "pymq tail orders --grep 'id.: 17' -o raw",
        "pymq tail sessions --lite session-4711 --from start",
    ),
)
def tail(
    topics: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TOPIC", help="Topics, or patterns as 'a*'; without one all topics.", autocompletion=live("topic")
        ),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="WHERE", help="start, end, group, an offset, -15m, or a time (2026-01-31T12:00)."
        ),
    ] = None,
    stop: Annotated[
        str | None,
        typer.Option(
            "--to", "--until", metavar="WHERE", help="End before an offset or a time (also +5m); end: do not follow."
        ),
    ] = None,
    last: Annotated[
        int | None,
        typer.Option(
            "--last", min=0, metavar="N", help=f"Begin with the last N messages; -N for short. [{DEFAULT_LAST_COUNT}]"
        ),
    ] = None,
    look_back: Annotated[
        int | None,
        typer.Option("--look-back", metavar="N", min=1, help="Look for the last ones in at most N messages. [100000]"),
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
    lite: Annotated[
        str | None, typer.Option("--lite", metavar="NAME", help="Only messages of this lite topic.")
    ] = None,
    grep: Annotated[
        str | None, typer.Option("--grep", metavar="REGEX", help="Only messages whose body matches.")
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option("--where", metavar="COND", help="Only JSON bodies with: price>=5, user.name=Bob, a[0]~REGEX."),
    ] = None,
    fields: Annotated[
        str | None,
        typer.Option("--fields", metavar="PATHS", help="Show only these fields of JSON bodies: id,user.name."),
    ] = None,
    retries: Annotated[
        list[str] | None, typer.Option("--retries", metavar="GROUP", help="Also this group's retry topic.")
    ] = None,
    dead_letters: Annotated[
        list[str] | None, typer.Option("--dead-letters", metavar="GROUP", help="Also this group's dead letters.")
    ] = None,
    queue: Annotated[
        str | None, typer.Option("--queue", metavar="[BROKER:]ID", help="Only this queue, of each broker or of one.")
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            "--group",
            metavar="NAME",
            help="Begin at the offset of this consumer group, or at the start if it has none.",
            autocompletion=live("group"),
        ),
    ] = None,
    create_group: Annotated[bool, typer.Option("--create-group", help="Make the group if no broker has it.")] = False,
    commit: Annotated[bool, typer.Option("--commit", help="Commit the offsets shown, for --group.")] = False,
    decode: Annotated[
        str | None,
        typer.Option(
            "--decode", metavar="STEPS", help="Show bodies as text: auto, gzip, zstd, avro, protobuf, registry, …"
        ),
    ] = None,
    schema: Annotated[Path | None, typer.Option("--schema", metavar="FILE", help="Avro's schema (.avsc).")] = None,
    descriptor: Annotated[
        Path | None, typer.Option("--descriptor", metavar="FILE", help="Protobuf's descriptors, as protoc writes them.")
    ] = None,
    type_name: Annotated[
        str | None, typer.Option("--message", metavar="TYPE", help="Protobuf's message type: shop.Order.")
    ] = None,
    registry: Annotated[
        str | None,
        typer.Option("--registry", metavar="URL", help="Schemas of a registry, Confluent's or Apicurio's API."),
    ] = None,
    output: MessageOutputOption = MessageOutput.text,
    line_format: Annotated[
        str | None, typer.Option("--format", metavar="VERBS", help="A line of your own: '%t %k %b' (docs: cli.md).")
    ] = None,
    inflate_ratio: InflateRatioOption = INFLATION_RATIO_MAX,
    namesrv: NamesrvOption = DEFAULT_NAMESRV,
) -> None:
    """Show messages. Commits no offsets without --commit.

    Text lines are: store time, topic, broker/queue@offset, [tag], keys, body. JSON lines keep JSON bodies as JSON.
    """
    _check(output, line_format, group, commit=commit, create_group=create_group)
    begin = _start(start, last, group)
    end = parse_stop(stop, time.time_ns() // 1_000_000) if stop is not None else None
    is_to_end = end is not None and end.kind is StartKind.END

    from pymq.cli.tail.options import LOOK_BACK_MAX, TailOptions
    from pymq.cli.tail.show import body_reader, projected, show
    from pymq.model.properties import LITE_TOPIC
    from pymq.operations.message.bodies import parse_decoding
    from pymq.operations.message.fields import Condition, PropertyCondition
    from pymq.operations.message.selection import MessageSelection

    read = body_reader(parse_decoding(decode, schema, descriptor, type_name, registry), output, inflate_ratio)
    conditions = [Condition(text) for text in where or ()]
    options = TailOptions(
        topics=list(dict.fromkeys(topics or [])),
        start=begin,
        count=count,
        follow=follow and not is_to_end,
        selection=MessageSelection(
            tag,
            key,
            grep,
            sql,
            parse_plugin(plugin, expression, via),
            conditions,
            read,
            having=[] if lite is None else [PropertyCondition.equals(LITE_TOPIC, lite)],
            note=print_note,
        ),
        queue=parse_queue_choice(queue) if queue is not None else None,
        group=group or DEFAULT_GROUP,
        commit=commit,
        namesrv=namesrv,
        stop=None if is_to_end else end,
        retries=retries or [],
        dead_letters=dead_letters or [],
        is_group_named=group is not None,
        create_group=create_group,
        look_back_max=look_back or LOOK_BACK_MAX,
    )
    show(options, output, line_format, projected(read, fields))


def _check(
    output: MessageOutput, line_format: str | None, group: str | None, *, commit: bool, create_group: bool
) -> None:
    """Raise UsageError for options that exclude or need each other."""
    if commit and group is None:
        raise UsageError("--commit needs a group to commit for: give --group NAME")
    if create_group and group is None:
        raise UsageError("--create-group needs a name: give --group NAME")
    if line_format is not None and output not in (MessageOutput.text, MessageOutput.table):
        raise UsageError(f"--format and -o {output} are two formats: give one of them")


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
