"""Rates are differences of two samples."""

from __future__ import annotations

from pymq.operations.top.broker_tables import Part
from pymq.operations.top.rates import HISTORY_LENGTH, Figures, Rates
from pymq.operations.top.sample import GroupSample, ReaderSample, TopicSample
from pymq.wire.bodies_rows import GroupLag, TopicReaders
from tests.operations.top.sampled import group_row, rates, sample


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


def test_an_offset_that_is_new_was_not_consumed_meanwhile() -> None:
    """A group that begins at the end of a topic, or gets another one's offsets, has no rate for a moment."""
    before, after, last = sample(1000, committed=100), sample(2000, committed=0), sample(3000, committed=0)
    after.groups["billing", "broker-a"] = GroupSample(2000, group_row(1_000_100, 0, offsets=2), 0)
    last.groups["billing", "broker-a"] = GroupSample(3000, group_row(1_000_150, 0, offsets=2), 0)
    found = rates(before, after)
    assert found.groups()[0]["out"] is None
    found.add(last)
    assert found.groups()[0]["out"] == 50


def test_unknown_figures_stay_unknown() -> None:
    some = sample(1000, lag=5)
    row = GroupLag(topics=3, lag=0, unknown_queues=1)
    some.groups = {("billing", name): GroupSample(1000, row, None) for name in ("broker-a", "broker-b")}
    some.members["billing"] = None
    (group,) = rates(some).groups()
    assert [group[name] for name in ("members", "topics", "lag", "behind_ms")] == [None] * 4


def test_trends_hold_the_newest_rates_and_end_with_their_topic() -> None:
    found = rates(*(sample(1000 * number, end=number * number) for number in range(HISTORY_LENGTH + 10)))
    trend = found.topics()[0]["trend"]
    assert len(trend) == HISTORY_LENGTH
    assert trend[-1] == 2 * (HISTORY_LENGTH + 9) - 1
    found.add(sample(10**6, topic="other"))
    assert [row["name"] for row in found.topics()] == ["other"]
    assert found.topics()[0]["trend"] == []


def test_trends_can_be_left_to_others() -> None:
    found = Rates(keeps_trends=False)
    for number in range(3):
        found.add(sample(1000 * number, end=100 * number))
    assert (found.topics()[0]["in"], found.topics()[0]["trend"]) == (100, [])


def test_figures_of_all_topics_are_sums_as_old_as_their_oldest_part() -> None:
    before, after = sample(1000), sample(3000, end=400, committed=100)
    for one, end in ((before, 0), (after, 200)):
        one.topics["orders", "broker-b"] = TopicSample(500 + end * 10, end, 3)
        one.readers["orders", "broker-b"] = ReaderSample(600, TopicReaders(groups=1, committed=9, offsets=1))
    found = rates(before, after)
    assert found.topic_figures() == {"orders": Figures(300.0, 2500, 10), "TBW102": Figures(0.0, 3000, 0)}
    assert found.reader_figures() == {"orders": Figures(50.0, 600)}
    assert rates(before).topic_figures()["orders"].per_second is None


def test_parts_that_are_not_new_keep_their_rates() -> None:
    found = rates(sample(1000), sample(2000, put=50, end=100, committed=10))
    found.add(sample(3000, put=150, end=100, committed=10), [])
    assert (found.totals()["in"], found.topics()[0]["in"], found.groups()[0]["out"]) == (100, 100, 10)
    found.add(sample(4000, put=150, end=300, committed=70), [Part.ends])
    assert (found.topics()[0]["in"], found.groups()[0]["out"]) == (100, 10)
    found.add(sample(5000, put=150, end=300, committed=70), [Part.lags])
    assert (found.topics()[0]["in"], found.groups()[0]["out"]) == (100, 20)
