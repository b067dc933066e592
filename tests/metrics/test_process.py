"""The client library's process figures become families of PyMQ."""

from __future__ import annotations

import sys

import pytest

from pymq.metrics.family import MetricKind
from pymq.metrics.process import ProcessMetrics


@pytest.mark.skipif(sys.platform != "linux", reason="other systems give fewer")
def test_processor_time_memory_and_files() -> None:
    found = {family.metric.name: family for family in ProcessMetrics().collect()}
    (cpu,) = found["process_cpu_seconds_total"].readings
    assert cpu is not None and cpu.value > 0
    assert found["process_cpu_seconds_total"].metric.kind is MetricKind.COUNTER
    assert found["process_cpu_seconds_total"].metric.unit == "seconds"
    (memory,) = found["process_resident_memory_bytes"].readings
    assert memory is not None and memory.value > 1_000_000
    generations = [reading.labels for reading in found["python_gc_collections_total"].readings if reading]
    assert found["python_gc_collections_total"].metric.labels == ("generation",)
    assert generations == [("0",), ("1",), ("2",)]
