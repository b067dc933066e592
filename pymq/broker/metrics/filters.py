"""The work of SQL92 expressions for each group."""

from __future__ import annotations

from collections.abc import Iterator

from pymq.broker.assembly.parts import BrokerParts
from pymq.metrics.family import Family, bounded
from pymq.metrics.filters import FILTER_METRICS, FilterWork, filter_families

SQL92 = "sql92"


class FilterMetrics:
    """The figures of SQL92 expressions."""

    metrics = FILTER_METRICS

    def __init__(self, parts: BrokerParts) -> None:
        self._stats = parts.stats
        self._config = parts.config

    def collect(self) -> Iterator[Family]:
        found, left_out = bounded(self._stats.filters.counts.items(), self._config.metrics_series_max)
        work = [
            FilterWork(topic, group, SQL92, done.matched, done.skipped, done.errors, done.time_ms / 1000)
            for (topic, group), done in found
        ]
        yield from filter_families(work, left_out)
