"""``pymq bench``: send, consume, latency."""

from __future__ import annotations

from typing import Annotated

import typer

from pymq.cli.common.live import live
from pymq.cli.common.options import DEFAULT_NAMESRV, NamesrvOption, OutputOption
from pymq.cli.declared import examples, new_app
from pymq.cli.output import OutputFormat

app = new_app("Load a broker with sends, pulls or round trips, through the client library that applications use.")

DEFAULT_TOPIC = "PymqBench"

TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic to use.", autocompletion=live("topic"))]
SizeOption = Annotated[
    int, typer.Option("--size", metavar="BYTES", min=1, max=4 * 1024 * 1024, help="Size of each body in bytes.")
]


@app.command(
    epilog=examples("pymq bench send", "pymq bench send load --messages 1000000 --batch 32", "pymq bench send -o json")
)
def send(
    topic: TopicArgument = DEFAULT_TOPIC,
    count: Annotated[int, typer.Option("--messages", metavar="N", min=1, help="Number of messages to send.")] = 100_000,
    size_bytes: SizeOption = 128,
    in_flight: Annotated[
        int, typer.Option("--in-flight", metavar="N", min=1, max=10_000, help="Requests waiting for answers at once.")
    ] = 64,
    batch: Annotated[int, typer.Option("--batch", metavar="N", min=1, max=10_000, help="Messages in one request.")] = 1,
    output: OutputOption = OutputFormat.table,
    namesrv: NamesrvOption = DEFAULT_NAMESRV,
) -> None:
    """Send as fast as answers arrive; shows the rate and the time per send."""
    from pymq.cli.bench import work
    from pymq.net.runtime import run

    load = work.SendLoad(topic, count, size_bytes, in_flight=in_flight, batch=batch, namesrv=namesrv)
    work.print_result(run(load.run()), output)


@app.command(epilog=examples("pymq bench consume", "pymq bench consume orders --messages 10000 -o json"))
def consume(
    topic: TopicArgument = DEFAULT_TOPIC,
    count: Annotated[
        int | None,
        typer.Option("--messages", metavar="N", min=1, help="Stop after N messages; default all stored ones."),
    ] = None,
    output: OutputOption = OutputFormat.table,
    namesrv: NamesrvOption = DEFAULT_NAMESRV,
) -> None:
    """Pull all stored messages from all queues at once; shows the rate. Commits nothing."""
    from pymq.cli.bench import work
    from pymq.net.runtime import run

    work.print_result(run(work.ConsumeLoad(topic, count, namesrv).run()), output)


@app.command(epilog=examples("pymq bench latency", "pymq bench latency --rate 1000 --seconds 30 --size 1024"))
def latency(
    topic: TopicArgument = DEFAULT_TOPIC,
    rate: Annotated[int, typer.Option("--rate", metavar="N", min=1, max=100_000, help="Sends per second.")] = 1000,
    duration_s: Annotated[
        float, typer.Option("--seconds", metavar="S", min=0.1, max=86_400, help="Duration of the run.")
    ] = 10.0,
    size_bytes: SizeOption = 128,
    output: OutputOption = OutputFormat.table,
    namesrv: NamesrvOption = DEFAULT_NAMESRV,
) -> None:
    """Send at a steady rate; shows the time from the start of a send until a consumer has the message."""
    from pymq.cli.bench import work
    from pymq.net.runtime import run

    load = work.LatencyLoad(topic, rate, duration_s, size_bytes, namesrv)
    work.print_result(run(load.run()), output)
