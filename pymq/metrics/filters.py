"""The work of filters for each group: the same metrics wherever a filter runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pymq.metrics.family import Family, Reading, counter

MATCHED, SKIPPED, ERRORS = "matched", "skipped", "errors"
_KEY = ("topic", "consumer_group", "filter")

MESSAGES = counter(
    "pymq_filter_messages_total",
    "Messages that a group's filter matched, skipped, or could not judge (`result`).",
    *(*_KEY, "result"),
)
TIME = counter(
    "pymq_filter_seconds_total",
    "Time the filter took; in a broker, the time of reads through it, including the disk's.",
    *_KEY,
    unit="seconds",
)
FILTER_METRICS = (MESSAGES, TIME)


class FilterWork(NamedTuple):
    """The work of one group's filter for a topic."""

    topic: str
    group: str
    filter_name: str
    matched: int
    skipped: int
    errors: int
    seconds: float


def filter_families(found: list[FilterWork], left_out: int | None = None) -> Iterator[Family]:
    """Yield the families of ``found``, in which each key may occur once.

    ``left_out`` is the number of topics of groups beyond the limit, where there is one.
    """
    yield Family(MESSAGES, (reading for one in found for reading in _outcomes(one)), left_out)
    yield Family(TIME, (Reading((one.topic, one.group, one.filter_name), one.seconds) for one in found), left_out)


def _outcomes(work: FilterWork) -> Iterator[Reading]:
    for result, count in ((MATCHED, work.matched), (SKIPPED, work.skipped), (ERRORS, work.errors)):
        yield Reading((work.topic, work.group, work.filter_name, result), count)
