"""Prometheus' text format (version 0.0.4), made in slices of time.

The client library's own writer takes seven times as long per line and can't rest between two lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from math import isnan

from pymq.metrics.family import (
    BUCKET,
    BUCKET_LABEL,
    Collector,
    Family,
    Metric,
    Reading,
    Rows,
    escape,
    gauge,
    label_text,
)

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_EXACT = 2**53  # below it a float has every integer
SLICE_S = 0.001  # the time for which a scrape may block the event loop
LEFT_OUT = gauge(
    "pymq_metrics_left_out",
    "Series of a metric that are left out because there are more than the limit (`metricsOtelCardinalityLimit`).",
    "metric",
)


def slices(
    collectors: Iterable[Collector],
    labels: Mapping[str, str],
    now_s: Callable[[], float],
    slice_s: float = SLICE_S,
) -> Iterator[bytes]:
    """Yield the whole text in pieces, each of which took little longer than ``slice_s`` to make.

    ``labels`` are on every line, except where the metric has a label of the same name.
    """
    lines: list[str] = []
    end_s = now_s() + slice_s
    for line in _lines(collectors, labels):
        if line is not None:
            lines.append(line)
        if now_s() >= end_s:
            yield _joined(lines)
            lines = []
            end_s = now_s() + slice_s
    yield _joined(lines)


def number_text(value: float) -> str:
    """Format a reading as Go and Prometheus do."""
    if type(value) is int and -_EXACT < value < _EXACT:
        return str(value)
    if value == float("inf"):
        return "+Inf"
    if value == float("-inf"):
        return "-Inf"
    if isnan(value):
        return "NaN"
    return str(int(value)) if value == int(value) and abs(value) < _EXACT else repr(float(value))


def _lines(collectors: Iterable[Collector], labels: Mapping[str, str]) -> Iterator[str | None]:
    left_out: list[Reading] = []
    for collector in collectors:
        for family in collector.collect():
            if family is None:
                yield None
                continue
            yield from _family_lines(family, labels)
            if family.left_out is not None:
                left_out.append(Reading((family.metric.name,), family.left_out))
    yield from _family_lines(Family(LEFT_OUT, left_out), labels)


def _family_lines(family: Family, labels: Mapping[str, str]) -> Iterator[str | None]:
    metric = family.metric
    yield f"# HELP {metric.name} {_help(metric)}"
    yield f"# TYPE {metric.name} {metric.kind}"
    name = metric.name
    fixed = ",".join(f'{key}="{escape(value)}"' for key, value in labels.items() if key not in metric.labels)
    for reading in family.readings:
        if reading is None:
            yield None
            continue
        if isinstance(reading, Rows):
            yield _rows_text(name, fixed, reading)
            continue
        keys = (*metric.labels, BUCKET_LABEL) if reading.suffix == BUCKET else metric.labels
        own = label_text(keys, reading.labels)
        both = f"{fixed},{own}" if fixed and own else fixed or own
        braces = f"{{{both}}}" if both else ""
        yield f"{name}{reading.suffix}{braces} {number_text(reading.value)}"


def _rows_text(name: str, fixed: str, rows: Rows) -> str:
    begin = f"{name}{{{fixed}," if fixed else f"{name}{{"
    return "\n".join(
        [f"{begin}{own}}} {number_text(value)}" for own, value in zip(rows.labels, rows.values, strict=True)]
    )


def _help(metric: Metric) -> str:
    return metric.meaning.replace("\\", r"\\").replace("\n", r"\n")


def _joined(lines: list[str]) -> bytes:
    return "".join([line + "\n" for line in lines]).encode()
