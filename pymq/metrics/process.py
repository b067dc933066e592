"""The process's own figures from Prometheus' client library: processor time, memory, files, garbage collections."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector

from pymq.metrics.family import Family, Metric, MetricKind, Reading

_KINDS = {"gauge": MetricKind.GAUGE, "counter": MetricKind.COUNTER}
_TOTAL = "_total"


class ProcessMetrics:
    """Reads files of the system that are in memory. :attr:`metrics` lists what this system provides."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        GCCollector(registry=self._registry)
        self.metrics = [family.metric for family in self.collect()]

    def collect(self) -> Iterator[Family]:
        for found in self._registry.collect():
            kind = _KINDS[found.type]
            name = found.name + _TOTAL if kind is MetricKind.COUNTER else found.name
            labels = tuple(found.samples[0].labels) if found.samples else ()
            readings = [Reading(tuple(sample.labels.values()), sample.value) for sample in found.samples]
            yield Family(Metric(name, kind, _unit(name), labels, found.documentation), readings)


def _unit(name: str) -> str:
    return next((unit for unit in ("bytes", "seconds") if unit in name.split("_")), "")
