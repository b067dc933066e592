"""SQL92's figures by group."""

from __future__ import annotations

from pymq.broker.metrics.filters import FilterMetrics
from pymq.broker.stats.filter_stats import FilterCounts
from tests.broker.metrics.readings import left_out, table
from tests.broker.world import World


def test_what_an_expression_did() -> None:
    world = World()
    world.parts.stats.filters.counts["orders", "g"] = FilterCounts(matched=3, skipped=20, errors=1, time_ms=1500)
    found = table(FilterMetrics(world.parts))
    assert found["pymq_filter_messages_total"] == {
        ("orders", "g", "sql92", "matched"): 3,
        ("orders", "g", "sql92", "skipped"): 20,
        ("orders", "g", "sql92", "errors"): 1,
    }
    assert found["pymq_filter_seconds_total"] == {("orders", "g", "sql92"): 1.5}


def test_groups_over_the_limit_are_left_out_and_counted() -> None:
    world = World(metricsOtelCardinalityLimit=100)
    for number in range(101):
        world.parts.stats.filters.counts["orders", f"g{number}"] = FilterCounts(matched=1)
    metrics = FilterMetrics(world.parts)
    assert len(table(metrics)["pymq_filter_seconds_total"]) == 100
    assert set(left_out(metrics).values()) == {1}
