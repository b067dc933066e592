"""``pymq bench``: send, consume, latency."""

from __future__ import annotations

from typing import Annotated

import typer

from pymq.cli.lazy import examples, new_app
from pymq.cli.options import DEFAULT_NAMESRV, NamesrvOption, OutputOption
from pymq.cli.output import OutputFormat

app = new_app("Load a broker with sends, pulls or round trips, through the same client library applications use.")

DEFAULT_TOPIC = "PymqBench"

TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic to use.")]
SizeOption = Annotated[
    int, typer.Option("--size", metavar="BYTES", min=1, max=4 * 1024 * 1024, help="Bytes of each body.")
]


@app.command(
    epilog=examples("pymq bench send", "pymq bench send load --messages 1000000 --batch 32", "pymq bench send -o json")
)
def send(
    topic: TopicArgument = DEFAULT_TOPIC,
    count: Annotated[int, typer.Option("--messages", metavar="N", min=1, help="How many to send.")] = 100_000,
    size_bytes: SizeOption = 128,
    in_flight: Annotated[
        int, typer.Option("--in-flight", metavar="N", min=1, max=10_000, help="Sends open at once.")
    ] = 64,
    batch: Annotated[int, typer.Option("--batch", metavar="N", min=1, max=10_000, help="Messages in one request.")] = 1,
    output: OutputOption = OutputFormat.table,
    namesrv: NamesrvOption = DEFAULT_NAMESRV,
) -> None:
    """Send as fast as the answers come; shows the rate and how long a send took."""
    from pymq.cli import bench_work as work
    from pymq.net.runtime import run

    load = work.SendLoad(topic, count, size_bytes, in_flight=in_flight, batch=batch, namesrv=namesrv)
    work.print_result(run(load.run()), output)


@app.command(epilog=examples("pymq bench consume", "pymq bench consume orders --messages 10000 -o json"))
def consume(
    topic: TopicArgument = DEFAULT_TOPIC,
    count: Annotated[
        int | None,
        typer.Option("--messages", metavar="N", min=1, help="Stop after so many; default all that are stored."),
    ] = None,
    output: OutputOption = OutputFormat.table,
    namesrv: NamesrvOption = DEFAULT_NAMESRV,
) -> None:
    """Pull everything that is stored from all queues at once; shows the rate. Commits nothing."""
    from pymq.cli import bench_work as work
    from pymq.net.runtime import run

    work.print_result(run(work.ConsumeLoad(topic, count, namesrv).run()), output)


@app.command(epilog=examples("pymq bench latency", "pymq bench latency --rate 1000 --seconds 30 --size 1024"))
def latency(
    topic: TopicArgument = DEFAULT_TOPIC,
    rate: Annotated[int, typer.Option("--rate", metavar="N", min=1, max=100_000, help="Sends a second.")] = 1000,
    duration_s: Annotated[
        float, typer.Option("--seconds", metavar="S", min=0.1, max=86_400, help="How long to send.")
    ] = 10.0,
    size_bytes: SizeOption = 128,
    output: OutputOption = OutputFormat.table,
    namesrv: NamesrvOption = DEFAULT_NAMESRV,
) -> None:
    """Send at a steady rate and take the time from before the send until a consumer has the message."""
    from pymq.cli import bench_work as work
    from pymq.net.runtime import run

    load = work.LatencyLoad(topic, rate, duration_s, size_bytes, namesrv)
    work.print_result(run(load.run()), output)
