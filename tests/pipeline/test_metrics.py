"""A pipeline's figures for Prometheus."""

from __future__ import annotations

from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pymq.cli.pipeline.command import _measured
from pymq.pipeline.metrics import PIPELINE_METRICS
from pymq.pipeline.report import Batch, History


def test_a_scrape_has_the_figures_of_each_sink(capsys: pytest.CaptureFixture[str]) -> None:
    history = History()
    with _measured("sessions", history, 0):
        address = capsys.readouterr().err.split()[-1]
        history.add(Batch("a", 0, "", 5, 1.0, 250, 7))
        history.add(Batch("a", 1, "", 6, 1.0, 500, 3))
        history.add(Batch("b", 0, "", 1, 1.0, 100, None))
        with urlopen(address, timeout=30) as answer:
            families = list(text_string_to_metric_families(answer.read().decode()))
    found = {
        (sample.name, sample.labels.get("sink", "")): sample.value
        for family in families
        for sample in family.samples
        if sample.name.startswith("pymq_pipeline") and sample.labels["node_id"] == "sessions"
    }
    assert found == {
        ("pymq_pipeline_info", ""): 1,
        ("pymq_pipeline_batches_total", "a"): 2,
        ("pymq_pipeline_batches_total", "b"): 1,
        ("pymq_pipeline_rows_total", "a"): 11,
        ("pymq_pipeline_rows_total", "b"): 1,
        ("pymq_pipeline_batch_seconds", "a"): 0.5,
        ("pymq_pipeline_batch_seconds", "b"): 0.1,
        ("pymq_pipeline_behind_messages", "a"): 3,
    }
    assert {name for name, _ in found} == {metric.name for metric in PIPELINE_METRICS}
