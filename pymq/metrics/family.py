"""What a metric is, and the readings of one scrape.

Collectors give families one after the other, and a family's readings one after the other, so that a scrape of many
topics can be made in small pieces: nothing is added up before it is asked for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import NamedTuple, Protocol, TypeVar

Item = TypeVar("Item")
# A histogram's lines: counts up to a bound (an additional label), the number of things and the sum of their sizes.
BUCKET, COUNT, SUM = "_bucket", "_count", "_sum"
BUCKET_LABEL = "le"


class Kind(StrEnum):
    """As Prometheus names them."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """One row of docs/metrics.md. ``labels`` come beside those that every metric of the process has.

    ``unit``: of the readings, empty for a number of things. A histogram's name is without ``_bucket`` and its like.
    """

    name: str
    kind: Kind
    unit: str
    labels: tuple[str, ...]
    meaning: str


class Reading(NamedTuple):
    """``labels``: the values of the metric's labels, in their order. ``suffix``: of a histogram's lines."""

    labels: tuple[str, ...]
    value: float
    suffix: str = ""


# Stands for work that gave no reading: a scrape may rest here.
PAUSE = None

Readings = Iterable[Reading | None]


class Family(NamedTuple):
    """A metric and its readings. ``left_out``: how many there are beyond the limit; None where nothing can be."""

    metric: Metric
    readings: Readings
    left_out: int | None = None


class Collector(Protocol):
    """Gives one part's families. ``metrics`` is all that it may give."""

    @property
    def metrics(self) -> Sequence[Metric]: ...

    def collect(self) -> Iterator[Family | None]:
        """The present figures; PAUSE between families where work was done."""
        ...


def gauge(name: str, meaning: str, *labels: str, unit: str = "") -> Metric:
    """A metric whose readings go up and down."""
    return Metric(name, Kind.GAUGE, unit, labels, meaning)


def counter(name: str, meaning: str, *labels: str, unit: str = "") -> Metric:
    """A metric whose readings grow, from 0 at the start of the process or of what they count for."""
    return Metric(name, Kind.COUNTER, unit, labels, meaning)


def histogram(name: str, meaning: str, *labels: str, unit: str) -> Metric:
    """A metric of counts by size."""
    return Metric(name, Kind.HISTOGRAM, unit, labels, meaning)


def single(metric: Metric, value: float) -> Family:
    """A family of one reading without labels."""
    return Family(metric, (Reading((), value),))


def state_set(metric: Metric, states: Iterable[str], current: str) -> Family:
    """One reading for each state there can be: 1 for the current one, 0 for others."""
    known = list(states)
    every = known if current in known else [*known, current]
    return Family(metric, [Reading((state,), float(state == current)) for state in every])


def bounded(items: Collection[Item], count_max: int) -> tuple[list[Item], int]:
    """(the first ``count_max`` of the items, how many more there are): those that were known first stay.

    Takes no longer for more items than that: a dictionary's items are best given as they are.
    """
    return list(islice(items, count_max)), max(0, len(items) - count_max)
