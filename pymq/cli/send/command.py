"""``pymq send``: sends one message from the argument, or many from stdin."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from pymq.cli.common.live import live
from pymq.cli.common.options import DEFAULT_NAMESRV, NamesrvOption, OutputOption
from pymq.cli.declared import examples, new_app
from pymq.cli.output import OutputFormat, print_data, print_line

app = new_app()


@app.command(
    epilog=examples(
        "pymq send orders 'hello'",
        "pymq send orders '{\"id\": 1}' --tag new --key order-1 --property region=eu",
        "pymq send orders 'pay now' --delay 90m        (prints the handle that recalls it)",
        "pymq send images @cat.png                     (a whole file; @- is all of stdin)",
        "pymq send orders 'test' --count 1000 --rate 50",
        "pymq send logs < app.log                      (a message for each line)",
        "pymq tail orders --from start --no-follow -o jsonl | pymq send copy --jsonl",
    )
)
def send(
    topic: Annotated[
        str,
        typer.Argument(
            metavar="TOPIC", help="The topic; the broker creates it if it may.", autocompletion=live("topic")
        ),
    ],
    body: Annotated[
        str | None,
        typer.Argument(
            metavar="BODY", help="The message, or @FILE, or @- (all of stdin); without it one message per line."
        ),
    ] = None,
    tag: Annotated[str, typer.Option("--tag", metavar="TAGS", help="Tag of the messages.")] = "",
    keys: Annotated[
        list[str] | None, typer.Option("--key", metavar="KEY", help="A key to find the message by; repeatable.")
    ] = None,
    properties: Annotated[
        list[str] | None, typer.Option("--property", metavar="NAME=VALUE", help="A property; repeatable.")
    ] = None,
    delay_level: Annotated[
        int,
        typer.Option("--delay-level", metavar="N", min=0, help="Deliver later: 1 is 1s, 2 is 5s, … 18 is 2h."),
    ] = 0,
    delay: Annotated[
        str | None,
        typer.Option("--delay", metavar="TIME", help="Deliver so much later, to the millisecond: 90s, 15m, 2d."),
    ] = None,
    deliver_at: Annotated[
        str | None,
        typer.Option("--deliver-at", metavar="TIME", help="Deliver at that time: 2026-01-31T12:00, or Unix ms."),
    ] = None,
    delay_level_max: Annotated[
        int | None,
        typer.Option("--delay-level-max", metavar="N", min=1, help="The number of levels, if brokers have over 18."),
    ] = None,
    priority: Annotated[
        int | None,
        typer.Option("--priority", metavar="N", min=0, help="Priority for pops of a topic of type priority."),
    ] = None,
    lite: Annotated[
        str, typer.Option("--lite", metavar="NAME", help="Lite topic of the messages, in a topic of type lite.")
    ] = "",
    queue: Annotated[str | None, typer.Option("--queue", metavar="[BROKER:]ID", help="Send to this queue.")] = None,
    json_lines: Annotated[
        bool,
        typer.Option(
            "--json-lines",
            "--jsonl",
            help="Stdin lines are objects with body, and maybe tags, keys, properties, delay_level.",
        ),
    ] = False,
    in_flight: Annotated[
        int,
        typer.Option("--in-flight", metavar="N", min=1, max=10_000, help="Requests waiting for answers at once."),
    ] = 64,
    batch: Annotated[
        int, typer.Option("--batch", metavar="N", min=1, max=10_000, help="Messages in one request, from stdin.")
    ] = 1,
    count: Annotated[
        int | None,
        typer.Option("--count", "-n", metavar="N", min=1, help="Send BODY N times, or at most N lines of stdin."),
    ] = None,
    rate: Annotated[
        float | None, typer.Option("--rate", metavar="N", min=0.01, help="At most N messages per second.")
    ] = None,
    group: Annotated[
        str, typer.Option("--group", metavar="NAME", help="Producer group.", autocompletion=live("group"))
    ] = "PYMQ_CLI_PRODUCER",
    output: OutputOption = OutputFormat.table,
    namesrv: NamesrvOption = DEFAULT_NAMESRV,
) -> None:
    """Send messages: the argument, or each line of stdin (empty lines are skipped). A text with @ begins with @@."""
    from pymq.cli.common.options import parse_pairs
    from pymq.cli.send import work
    from pymq.model.message import DELAY_LEVEL_MAX
    from pymq.net.runtime import run
    from pymq.operations.message import sending
    from pymq.operations.queues import parse_queue_choice

    levels = delay_level_max or DELAY_LEVEL_MAX
    template = sending.new_message(
        topic,
        tags=tag,
        keys=keys or (),
        properties=parse_pairs(properties or (), "--property"),
        delay_level=delay_level,
        delay_level_max=levels,
        priority=priority,
        lite_topic=lite,
    )
    template = sending.with_timer(template, delay, deliver_at, time.time_ns() // 1_000_000)
    target = run(work.find_queue(topic, parse_queue_choice(queue), namesrv)) if queue is not None else None
    sender = work.Sender(group, namesrv, levels)
    whole = work.body_argument(body) if body is not None and body != "-" else None
    if whole is not None and count is None:
        result = run(work.send_one(sender, work.with_body(template, whole), target))
        place = f"{result.queue.broker_name}/{result.queue.queue_id}@{result.queue_offset}"
        if not print_data(sending.result_record(result), output):
            print_line(f"sent {topic} {place} {result.message_id}")
            if result.recall_handle:
                print_line(f"recall it with: pymq message recall {topic} {result.recall_handle}")
        return
    flow = work.Flow(in_flight, batch, count, rate)
    job = work.SendJob(sender, template, target, flow, body=whole, json_lines=json_lines)
    summary = run(job.run())
    if not print_data(summary.record(), output):
        print_line(summary.text())
    if summary.interrupted:
        raise typer.Abort
    if summary.failed_count:
        raise typer.Exit(1)
