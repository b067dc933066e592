"""Brokers' rows of a table, with the workers of a machine under a row of their sums."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from itertools import zip_longest

from pymq.cli.top.screen import Choice, chosen_rows
from pymq.model.hosts import host_of
from pymq.operations.top.rates import Row
from pymq.units import format_count

INDENT = "  "
SUMMED = ("in", "out", "log_bytes", "lag")


def with_machines(rows: Iterable[Row], choice: Choice) -> list[Row]:
    """Return the chosen rows, sorted. Several workers of a machine stand under their sum, and move with it.

    A worker that is shown alone is a row like a broker's.
    """
    found = chosen_rows(rows, choice)
    machines: dict[Hashable, list[Row]] = {}
    for row in found:
        machines.setdefault(_machine(row), []).append(row)
    workers = {key: group for key, group in machines.items() if len(group) > 1}
    heads = [_sum(workers[key]) if key in workers else group[0] for key, group in machines.items()]
    result: list[Row] = []
    for head in chosen_rows(heads, replace(choice, contains="")):
        result.append(head)
        result += [row | {"name": INDENT + row["name"]} for row in workers.get(head["key"], ())]
    return result


def _machine(row: Row) -> Hashable:
    """Return what the workers of one machine have in common: the machines of a master and its slave have one name."""
    if row["machine"] is None:
        return str(row["address"])
    return row["cluster"], row["machine"], host_of(row["address"]), row["name"].partition(":")[2]


def _sum(workers: Sequence[Row]) -> Row:
    first = workers[0]
    _, colon, broker_id = first["name"].partition(":")
    versions, disks = {row["version"] for row in workers}, [row["disk"] for row in workers]
    return {
        **first,
        **{key: _known(sum, (row[key] for row in workers)) for key in SUMMED},
        "key": _machine(first),
        "name": f"{first['machine']}{colon}{broker_id}",
        "version": versions.pop() if len(versions) == 1 else None,
        "address": f"{host_of(first['address'])}: {format_count(len(workers), 'worker')}",
        "disk": _known(max, disks),
        "error": "" if not all(row["error"] for row in workers) else first["error"],
        "trend": _added([row["trend"] for row in workers]),
    }


def _known(combine: Callable[[list[float]], float], values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return combine(known) if known else None


def _added(trends: Sequence[Sequence[float]]) -> list[float]:
    """Return the sums of the newest values, of those before them, and so on."""
    return [sum(values) for values in zip_longest(*(reversed(trend) for trend in trends), fillvalue=0.0)][::-1]
