"""Figures of streaming queries: batches, idle times, looks at brokers, bounds of series, queries that end."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pymq.metrics.exposition import slices
from pymq.spark.session.query_figures import (
    LABEL_LENGTH_MAX,
    OTHER_TOPICS,
    QUERIES_MAX,
    TOPICS_MAX,
    QueryFigures,
    TopicLook,
)


def shown(figures: QueryFigures) -> dict[str, float]:
    """Return the readings by what Prometheus calls them, without the common label."""
    text = b"".join(slices([figures], {}, lambda: 0.0)).decode()
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def report(
    start: Any, end: Any, latest: Any, *, run: str = "r1", name: str | None = "q", **fields: Any
) -> dict[str, Any]:
    source = {"startOffset": start, "endOffset": end, "latestOffset": latest}
    given = {"runId": run, "id": "i1", "name": name, "batchDuration": 2000, "durationMs": {"addBatch": 1}}
    return {**given, "sources": [source], **fields}


def at(**topics: int) -> dict[str, Any]:
    return {topic: {"b": {"0": offset}} for topic, offset in topics.items()}


@pytest.mark.parametrize("form", [lambda levels: levels, json.dumps])
def test_a_batch_gives_rows_rate_time_and_lag(form: Any) -> None:
    figures = QueryFigures()
    figures.started("r1", "i1", "q")
    figures.progressed(report(form(at(T=0, U=5)), form(at(T=10, U=5)), form(at(T=30, U=6))))
    found = shown(figures)
    assert found["pymq_spark_queries"] == 1 and found['pymq_spark_batches_total{query="q"}'] == 1
    assert found['pymq_spark_batch_seconds{query="q"}'] == 2
    assert found['pymq_spark_rows_total{query="q",topic="T"}'] == 10
    assert found['pymq_spark_rows_per_second{query="q",topic="T"}'] == 5
    assert found['pymq_spark_lag_messages{query="q",topic="T"}'] == 20
    assert found['pymq_spark_rows_total{query="q",topic="U"}'] == 0
    assert found['pymq_spark_lag_messages{query="q",topic="U"}'] == 1
    assert not [name for name in found if "behind" in name or "bytes" in name or "cluster" in name]


def test_rates_fall_to_zero_in_idle_times_and_in_reports_without_a_batch() -> None:
    figures = QueryFigures()
    figures.progressed(report(at(T=0), at(T=10), at(T=10)))
    figures.idled("r1")
    assert shown(figures)['pymq_spark_rows_per_second{query="q",topic="T"}'] == 0
    figures.progressed(report(at(T=10), at(T=20), at(T=20)))
    figures.progressed(report(at(T=20), at(T=20), at(T=20), durationMs={"latestOffset": 1}))
    found = shown(figures)
    assert found['pymq_spark_rows_per_second{query="q",topic="T"}'] == 0
    assert found['pymq_spark_batches_total{query="q"}'] == 2
    assert found['pymq_spark_rows_total{query="q",topic="T"}'] == 20
    figures.idled("unknown")


@pytest.mark.parametrize(
    "end", [{"logOffset": 3}, "17", 17, None, {"topic": {"0": 5}}, "no JSON", '{"a": {"b": {"c": "d"}}}', [1]]
)
def test_other_sources_have_no_topics(end: Any) -> None:
    figures = QueryFigures()
    figures.progressed(report(end, end, end))
    assert set(shown(figures)) == {
        "pymq_spark_queries", "pymq_spark_queries_left_out",
        'pymq_spark_batches_total{query="q"}', 'pymq_spark_batch_seconds{query="q"}',
    }  # fmt: skip
    assert figures.positions() == []


def test_a_look_gives_the_lag_of_now_the_age_and_the_bytes_of_all_batches() -> None:
    figures = QueryFigures()
    figures.progressed(report(at(T=0), at(T=10), at(T=30)))
    figures.progressed(report(at(T=10), at(T=20), at(T=30)))
    (position,) = figures.positions()
    assert position.ends == {("T", "b", 0): 20} and position.spans == ((("T", "b", 0), 10, 20),)
    figures.looked({"q": {"T": TopicLook(55, 1.5, 200.0, 35)}})
    found = shown(figures)
    assert found["pymq_spark_cluster_answers"] == 1
    assert found['pymq_spark_lag_messages{query="q",topic="T"}'] == 55
    assert found['pymq_spark_behind_seconds{query="q",topic="T"}'] == 1.5
    assert found['pymq_spark_group_lag_messages{query="q",topic="T"}'] == 35
    assert found['pymq_spark_bytes_total{query="q",topic="T"}'] == 4000
    assert found['pymq_spark_bytes_per_second{query="q",topic="T"}'] == 1000
    figures.progressed(report(at(T=20), at(T=30), at(T=30)))
    figures.looked({"q": {"T": TopicLook(0, 0.0, None)}})
    assert shown(figures)['pymq_spark_bytes_total{query="q",topic="T"}'] == 6000
    figures.looked(None)
    found = shown(figures)
    assert found["pymq_spark_cluster_answers"] == 0 and found['pymq_spark_lag_messages{query="q",topic="T"}'] == 0
    assert not [name for name in found if "behind" in name or "group" in name]


def test_ended_queries_leave() -> None:
    figures = QueryFigures()
    figures.progressed(report(at(T=0), at(T=10), at(T=30)))
    figures.ended("r1")
    figures.ended("unknown")
    assert shown(figures) == {"pymq_spark_queries": 0, "pymq_spark_queries_left_out": 0}


def test_two_queries_of_one_name_have_series_of_their_own() -> None:
    figures = QueryFigures()
    figures.started("r1", "i1", "q")
    figures.started("r2", "i2", "q")
    figures.started("r3", "i3", None)
    assert {'pymq_spark_batches_total{query="q"}', 'pymq_spark_batches_total{query="r2"}'} <= shown(figures).keys()
    assert 'pymq_spark_batches_total{query="i3"}' in shown(figures)


@pytest.mark.parametrize("more", [0, 1])
def test_queries_beyond_the_limit_are_counted(more: int) -> None:
    figures = QueryFigures()
    for number in range(QUERIES_MAX + more):
        figures.progressed(report(at(T=0), at(T=1), at(T=1), run=f"r{number}", name=f"q{number}"))
    found = shown(figures)
    assert found["pymq_spark_queries"] == QUERIES_MAX + more and found["pymq_spark_queries_left_out"] == more
    assert sum(name.startswith("pymq_spark_rows_total") for name in found) == QUERIES_MAX
    figures.ended("r0")
    figures.progressed(report(at(T=0), at(T=1), at(T=1), run=f"r{QUERIES_MAX}", name="last"))
    assert shown(figures)["pymq_spark_queries_left_out"] == 0


@pytest.mark.parametrize("more", [0, 1, 2])
def test_topics_beyond_the_limit_add_up(more: int) -> None:
    figures = QueryFigures()
    names = [f"T{number}" for number in range(TOPICS_MAX + more)]
    figures.progressed(
        report(at(**dict.fromkeys(names, 0)), at(**dict.fromkeys(names, 3)), at(**dict.fromkeys(names, 4)))
    )
    figures.looked({"q": {name: TopicLook(7, 1.0, 10.0, 2) for name in names}})
    found = shown(figures)
    rows = [name for name in found if name.startswith("pymq_spark_rows_total")]
    assert len(rows) == TOPICS_MAX + (more > 0)
    if more:
        assert found[f'pymq_spark_rows_total{{query="q",topic="{OTHER_TOPICS}"}}'] == 3 * more
        assert found[f'pymq_spark_lag_messages{{query="q",topic="{OTHER_TOPICS}"}}'] == 7 * more
        assert found[f'pymq_spark_group_lag_messages{{query="q",topic="{OTHER_TOPICS}"}}'] == 2 * more


@pytest.mark.parametrize("length", [LABEL_LENGTH_MAX, LABEL_LENGTH_MAX + 1])
def test_long_names_are_cut(length: int) -> None:
    figures = QueryFigures()
    figures.started("r1", "i1", "n" * length)
    assert f'pymq_spark_batches_total{{query="{"n" * LABEL_LENGTH_MAX}"}}' in shown(figures)
