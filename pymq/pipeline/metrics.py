"""A pipeline's figures for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator

import pymq
from pymq.metrics.family import Collector, Family, Reading, counter, gauge
from pymq.net.memory_budget import MemoryBudget
from pymq.pipeline.report import History

NODE_TYPE = "pipeline"

INFO = gauge("pymq_pipeline_info", "Always 1; the label says which version runs.", "pymq_version")
BATCHES = counter("pymq_pipeline_batches_total", "Batches that a sink has finished.", "sink")
ROWS = counter("pymq_pipeline_rows_total", "Rows that a sink's query has read.", "sink")
BATCH_TIME = gauge("pymq_pipeline_batch_seconds", "Time of a sink's last batch.", "sink", unit="seconds")
BEHIND = gauge("pymq_pipeline_behind_messages", "Messages of topics that were not read after the last batch.", "sink")
PIPELINE_METRICS = (INFO, BATCHES, ROWS, BATCH_TIME, BEHIND)


class PipelineMetrics:
    """All figures of a running pipeline."""

    metrics = PIPELINE_METRICS
    budget: MemoryBudget | None = None

    def __init__(self, name: str, history: History) -> None:
        self._name = name
        self._history = history

    def labels(self) -> dict[str, str]:
        return {"node_id": self._name, "node_type": NODE_TYPE}

    def collectors(self) -> list[Collector]:
        return [self]

    def collect(self) -> Iterator[Family]:
        history = self._history
        sinks = history.sinks()
        behind = [(sink, history.behind(sink)) for sink in sinks]
        yield Family(INFO, (Reading((pymq.__version__,), 1),))
        yield Family(BATCHES, tuple(Reading((sink,), history.batches(sink)) for sink in sinks))
        yield Family(ROWS, tuple(Reading((sink,), history.rows(sink)) for sink in sinks))
        yield Family(BATCH_TIME, tuple(Reading((sink,), history.last(sink).batch_ms / 1000) for sink in sinks))
        yield Family(BEHIND, tuple(Reading((sink,), count) for sink, count in behind if count is not None))
