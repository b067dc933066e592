"""The output of a collector as a table for tests, checked against its description."""

from __future__ import annotations

import re

from pymq.metrics.family import Collector, Metric, Reading, Readings, Rows, label_text

Table = dict[str, dict[tuple[str, ...], float]]


def table(collector: Collector) -> Table:
    """Return metric name -> labels -> value. A histogram's keys are (suffix, labels…)."""
    found: Table = {}
    for family in collector.collect():
        if family is None:
            continue
        metric = family.metric
        assert metric in collector.metrics, f"{metric.name} is not among the collector's metrics"
        assert metric.name not in found, f"{metric.name} came twice"
        readings = single_readings(metric, family.readings)
        keys = [_key(reading) for reading in readings]
        assert len(set(keys)) == len(keys), f"{metric.name} has a series twice"
        for reading in readings:
            assert len(reading.labels) == len(metric.labels) + (reading.suffix == "_bucket"), metric.name
        found[metric.name] = {_key(reading): float(reading.value) for reading in readings}
    return found


def single_readings(metric: Metric, readings: Readings) -> list[Reading]:
    """Return the readings one by one, those of rows too; label values have no quotation marks here."""
    found = []
    for reading in readings:
        if isinstance(reading, Rows):
            for text, value in zip(reading.labels, reading.values, strict=True):
                labels = tuple(re.findall(r'="([^"]*)"', text))
                assert label_text(metric.labels, labels) == text
                found.append(Reading(labels, value))
        elif reading is not None:
            found.append(reading)
    return found


def left_out(collector: Collector) -> dict[str, int]:
    """Return metric name -> number of series it left out, for metrics that may leave some out."""
    families = [family for family in collector.collect() if family is not None]
    return {family.metric.name: family.left_out for family in families if family.left_out is not None}


def _key(reading: Reading) -> tuple[str, ...]:
    return (reading.suffix, *reading.labels) if reading.suffix else reading.labels
