"""Rates are differences of two samples."""

from __future__ import annotations

from pymq.operations.top.rates import HISTORY_LENGTH
from tests.operations.top.sampled import rates, sample


def test_rates_are_differences_over_time() -> None:
    found = rates(sample(1000), sample(3000, put=500, end=400, committed=100, lag=300))
    totals = found.totals()
    assert (totals["clusters"], totals["in"], totals["out"], totals["silent"]) == (["east"], 250, 500, 0)
    master, slave = found.brokers()
    assert (master["in"], master["log_bytes"], master["disk"], master["lag"]) == (250, 25_000, 50, None)
    assert (slave["name"], slave["lag"], slave["in"]) == ("broker-a:1", 50, 0)
    (topic,) = found.topics()
    assert (topic["in"], topic["out"], topic["lag"], topic["groups"], topic["messages"]) == (200, 50, 300, 1, 7)
    (group,) = found.groups()
    assert (group["out"], group["lag"], group["behind_ms"], group["members"]) == (50, 300, 90_000, 2)
    assert {row["name"] for row in found.topics(everything=True)} == {"orders", "TBW102"}


def test_a_single_sample_has_no_rates() -> None:
    found = rates(sample(1000, put=500, end=400))
    assert [row["in"] for row in found.brokers()] == [None, None]
    assert found.topics()[0]["in"] is None
    assert found.topics()[0]["trend"] == []


def test_a_restarted_broker_counts_from_zero_and_a_group_moved_back_consumes_nothing() -> None:
    found = rates(sample(1000, put=500, committed=100), sample(2000, put=30, committed=40))
    assert found.brokers()[0]["in"] == 30
    assert found.groups()[0]["out"] == 0
    found.add(sample(3000, put=40, committed=50))
    assert (found.brokers()[0]["in"], found.groups()[0]["out"]) == (10, 10)


def test_trends_hold_the_newest_rates_and_end_with_their_topic() -> None:
    found = rates(*(sample(1000 * number, end=number * number) for number in range(HISTORY_LENGTH + 10)))
    trend = found.topics()[0]["trend"]
    assert len(trend) == HISTORY_LENGTH
    assert trend[-1] == 2 * (HISTORY_LENGTH + 9) - 1
    found.add(sample(10**6, topic="other"))
    assert [row["name"] for row in found.topics()] == ["other"]
    assert found.topics()[0]["trend"] == []
