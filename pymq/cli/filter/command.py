"""``pymq filter``: list, eval, test."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from pymq.cli.common.live import live
from pymq.cli.common.options import DEFAULT_NAMESRV, NamesrvOption, OutputOption
from pymq.cli.declared import examples, new_app
from pymq.cli.output import Column, OutputFormat, print_data, print_listing
from pymq.operations.start import Start, StartKind, parse_start

app = new_app("List message filters, and try expressions.")

DEFAULT_FILTER = "sql92"
_LIST_COLUMNS = [Column("name"), Column("doc"), Column("package"), Column("version")]

FilterOption = Annotated[str, typer.Option("--filter", metavar="NAME", help="The filter (see pymq filter list).")]


@app.callback()
def group() -> None:
    """List message filters, and try expressions."""


@app.command("list", epilog=examples("pymq filter list", "pymq filter list --json"))
def list_filters(
    output: OutputOption = OutputFormat.table,
) -> None:
    """List the built-in filters and those of installed packages; shows why a package can't be used."""
    from pymq.filter.registry import installed_filters

    records = []
    for source in installed_filters().sources():
        doc = source.filter.doc if source.filter is not None else f"can't be used: {source.error}"
        records.append(
            {
                "name": source.name,
                "doc": doc,
                "package": source.package,
                "version": source.version,
                "error": source.error,
            }
        )
    print_listing(records, _LIST_COLUMNS, output)


@app.command(
    "eval",
    epilog=examples(
        """echo '{"expr": "size > 5", "props": {"size": "9"}}' | pymq filter eval""",
        """pymq filter eval --filter jsonpath < lines.json""",
    ),
)
def evaluate(name: FilterOption = DEFAULT_FILTER) -> None:
    """Evaluate expressions: reads one JSON object per line from stdin and writes one answer per line to stdout.

    A line has "expr", and optionally "props", "tags", "body" (a text) and "filter". An answer is {"result": true},
    false or null (unknown: no match), or {"error": TEXT}. An error never ends the stream.
    """
    import sys

    from pymq.cli.filter.evaluation import Evaluator, answer_lines
    from pymq.clock import SystemClock
    from pymq.filter.registry import installed_filters

    filters = installed_filters()
    filters.find(name)
    answer_lines(sys.stdin.buffer, sys.stdout.buffer, Evaluator(filters, name, SystemClock()).answer)


@app.command(
    "test",
    epilog=examples(
        "pymq filter test orders \"amount > 100 AND country = 'DE'\"",
        "pymq filter test orders --filter regex 'total.: 9[0-9]' -n 1000 --from -15m",
    ),
)
def try_filter(
    topic: Annotated[
        str, typer.Argument(metavar="TOPIC", help="The topic whose messages are read.", autocompletion=live("topic"))
    ],
    expression: Annotated[str, typer.Argument(metavar="EXPR", help="The expression.")],
    name: FilterOption = DEFAULT_FILTER,
    count: Annotated[
        int, typer.Option("--count", "-n", metavar="N", min=1, max=100_000, help="Number of messages to read.")
    ] = 100,
    start: Annotated[
        str | None,
        typer.Option("--from", metavar="WHERE", help="start, an offset, -15m, or a time. [the last N]"),
    ] = None,
    output: OutputOption = OutputFormat.table,
    namesrv: NamesrvOption = DEFAULT_NAMESRV,
) -> None:
    """Try an expression on messages of a topic: shows how many match or fail, the time it takes, and examples.

    The filter runs in this command; nothing is committed or changed.
    """
    from pymq.cli.filter import trial as work

    begin = Start(StartKind.LAST, count) if start is None else parse_start(start, time.time_ns() // 1_000_000)
    report = work.try_on_topic(topic, name, expression, begin, count, namesrv)
    if not print_data(report, output):
        work.print_report(report)
