"""What a metric is, and the readings of one scrape.

Collectors yield families one by one, and a family yields its readings one by one, so that a scrape of many topics can
be made in small pieces: no reading is computed before it is asked for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import NamedTuple, Protocol, TypeVar

Item = TypeVar("Item")
# The lines of a histogram: counts up to a bound (an additional label), the number of items and the sum of their sizes.
BUCKET, COUNT, SUM = "_bucket", "_count", "_sum"
BUCKET_LABEL = "le"
_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


class MetricKind(StrEnum):
    """Prometheus' names for the kinds of metrics."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """One row of docs/metrics.md. ``labels`` are the metric's own, besides those of every metric of the process.

    ``unit`` is the unit of the readings, empty for a count. A histogram's name is without ``_bucket`` and the like.
    """

    name: str
    kind: MetricKind
    unit: str
    labels: tuple[str, ...]
    meaning: str


class Reading(NamedTuple):
    """One value. ``labels`` are the values of the metric's labels, in order; ``suffix`` names a histogram's line."""

    labels: tuple[str, ...]
    value: float
    suffix: str = ""


class Rows(NamedTuple):
    """Many readings of a metric at once. ``labels`` are written as :func:`label_text` does, one text for each value."""

    labels: Sequence[str]
    values: Sequence[float]


# Marks work that gave no reading, after which a scrape may rest.
PAUSE = None

Readings = Iterable[Reading | Rows | None]


class Family(NamedTuple):
    """A metric and its readings.

    ``left_out`` counts those beyond the limit; it is None for a metric without a limit.
    """

    metric: Metric
    readings: Readings
    left_out: int | None = None


class Collector(Protocol):
    """Yields one part's families. ``metrics`` lists every metric that it may yield."""

    @property
    def metrics(self) -> Sequence[Metric]: ...

    def collect(self) -> Iterator[Family | None]:
        """Yield the present figures, with PAUSE after work that gave no family."""
        ...


def gauge(name: str, meaning: str, *labels: str, unit: str = "") -> Metric:
    """Return a metric whose readings go up and down."""
    return Metric(name, MetricKind.GAUGE, unit, labels, meaning)


def counter(name: str, meaning: str, *labels: str, unit: str = "") -> Metric:
    """Return a metric whose readings grow, from 0 at the start of the process or of the counted object."""
    return Metric(name, MetricKind.COUNTER, unit, labels, meaning)


def histogram(name: str, meaning: str, *labels: str, unit: str) -> Metric:
    """Return a metric of counts by size."""
    return Metric(name, MetricKind.HISTOGRAM, unit, labels, meaning)


def single(metric: Metric, value: float) -> Family:
    """Return a family of one reading without labels."""
    return Family(metric, (Reading((), value),))


def state_set(metric: Metric, states: Iterable[str], current: str) -> Family:
    """Return one reading for each possible state: 1 for the current one, 0 for the others."""
    known = list(states)
    every = known if current in known else [*known, current]
    return Family(metric, [Reading((state,), float(state == current)) for state in every])


def escape(text: str) -> str:
    """Escape a label's value for its place between quotation marks."""
    return text.translate(_ESCAPES) if '"' in text or "\\" in text or "\n" in text else text


def label_text(keys: Sequence[str], values: Sequence[str]) -> str:
    """Return labels as Prometheus reads them between braces."""
    return ",".join([f'{key}="{escape(value)}"' for key, value in zip(keys, values, strict=True)])


def bounded(items: Collection[Item], count_max: int) -> tuple[list[Item], int]:
    """Return the first ``count_max`` items and the number of further ones. The oldest items stay.

    It takes no longer for more items than that, so pass a dictionary's view without copying it.
    """
    return list(islice(items, count_max)), max(0, len(items) - count_max)
