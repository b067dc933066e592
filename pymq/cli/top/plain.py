"""Views as plain blocks, one after the other: for pipes, ``--batch`` and terminals without control sequences."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from pymq.cli.output import printable
from pymq.cli.top.machines import with_machines
from pymq.cli.top.screen import Choice, View, chosen_rows, short_number, table
from pymq.clock import Clock
from pymq.operations.times import iso_time
from pymq.operations.top.rates import Rates, Row
from pymq.operations.top.sample import Sampler
from pymq.units import format_count


def rows_of(rates: Rates, choice: Choice) -> list[Row]:
    """Return the chosen rows of the chosen view."""
    if choice.view is View.cluster:
        return chosen_rows(rates.brokers(), choice)
    if choice.view is View.topics:
        return chosen_rows(rates.topics(everything=choice.everything), choice)
    return chosen_rows(rates.groups(), choice)


def table_rows(rates: Rates, choice: Choice) -> list[Row]:
    """Return the same rows as a table shows them: workers of a machine under their sum."""
    return with_machines(rates.brokers(), choice) if choice.view is View.cluster else rows_of(rates, choice)


def summary(rates: Rates) -> str:
    """Return the line above all views: the clusters, and what they take in and give out."""
    totals = rates.totals()
    names = ", ".join(map(printable, totals["clusters"])) or "no cluster"
    silent = f" ({totals['silent']} silent)" if totals["silent"] else ""
    return (
        f"{names}: {format_count(totals['brokers'], 'broker')}{silent}, in {short_number(totals['in'])}/s, "
        f"out {short_number(totals['out'])}/s"
    )


def block(rates: Rates, choices: Sequence[Choice], time: str, width: int, sparks: str) -> list[str]:
    """Return the lines of one frame: the time, then each view under its name."""
    lines = [f"{time}  {summary(rates)}"]
    for choice in choices:
        lines += [
            "",
            choice.view.value,
            *(line.text for line in table(table_rows(rates, choice), choice, width, sparks)),
        ]
    return [*lines, ""]


def record(rates: Rates, choices: Iterable[Choice], time: str) -> dict[str, Any]:
    """Return one frame as JSON: ``time``, ``totals``, and the rows of each view under its name."""
    return {
        "time": time,
        "totals": rates.totals(),
        **{choice.view.value: [_without_key(row) for row in rows_of(rates, choice)] for choice in choices},
    }


async def print_blocks(
    sampler: Sampler,
    choices: Sequence[Choice],
    clock: Clock,
    interval_s: float,
    count: int | None,
    *,
    width: int,
    sparks: str,
    as_json: Callable[[Any], None] | None = None,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Print ``count`` frames (None: without end), one every ``interval_s``; the first after that time, with rates.

    Raises UnreachableError when no name server answers.
    """
    rates = Rates()
    rates.add(await sampler.sample())
    printed = 0
    while count is None or printed < count:
        await sleep(interval_s)
        rates.add(await sampler.sample())
        if as_json is not None:
            as_json(record(rates, choices, iso_time(clock.now_ms())))
        else:
            time = clock.local_time().strftime("%Y-%m-%d %H:%M:%S")
            print("\n".join(block(rates, choices, time, width, sparks)), flush=True)
        printed += 1


def _without_key(row: Row) -> Row:
    return {name: value for name, value in row.items() if name != "key"}
