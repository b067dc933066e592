"""Points of an hour: gaps stay gaps, and there is room for so many series."""

from __future__ import annotations

from math import isnan, nan

import pytest

from pymq.console.history.rings import (
    CLUSTER,
    POINT_MS,
    POINTS,
    SEEN_MAX,
    Kind,
    Measure,
    Ring,
    Rings,
    Subject,
    point_at,
)


def known(points: list[float]) -> list[float | None]:
    return [None if isnan(value) else value for value in points]


def topic(name: str) -> Subject:
    return Subject(Kind.topic, name)


def test_a_time_belongs_to_a_point() -> None:
    assert [point_at(at) for at in (0, POINT_MS - 1, POINT_MS)] == [0, 0, 1]


def test_points_come_in_their_order_and_are_known_where_they_were_put() -> None:
    ring = Ring(1000)
    for point in range(1000, 1003):
        ring.put(point, float(point))
    found = ring.points(1003)
    assert len(found) == POINTS
    assert known(found)[-5:] == [None, 1000.0, 1001.0, 1002.0, None]


@pytest.mark.parametrize("later", [0, 1, POINTS - 1, POINTS, 5 * POINTS])
def test_points_of_an_hour_ago_are_gone(later: int) -> None:
    ring = Ring(7)
    ring.put(7, 1.0)
    assert known(ring.points(7 + later)).count(1.0) == (1 if later < POINTS else 0)


def test_a_ring_goes_round() -> None:
    ring = Ring(0)
    for point in range(3 * POINTS + 5):
        ring.put(point, float(point))
    assert ring.points(3 * POINTS + 4) == [float(point) for point in range(2 * POINTS + 5, 3 * POINTS + 5)]


def test_a_figure_counts_for_the_time_since_the_last_one() -> None:
    ring = Ring(10)
    ring.put(10, 1.0)
    ring.put(13, 4.0, joined_max=3)
    assert known(ring.points(13))[-4:] == [1.0, 4.0, 4.0, 4.0]


def test_a_longer_time_is_a_gap_and_a_rate_over_it_is_unknown() -> None:
    lag, rate = Ring(10), Ring(10)
    for ring, is_rate in ((lag, False), (rate, True)):
        ring.put(10, 1.0)
        ring.put(14, 4.0, joined_max=3, is_rate=is_rate)
    assert known(lag.points(14))[-5:] == [1.0, None, None, None, 4.0]
    assert known(rate.points(14))[-5:] == [1.0, None, None, None, None]
    rate.put(15, 2.0, joined_max=3, is_rate=True)
    assert known(rate.points(15))[-2:] == [None, 2.0]


def test_a_gap_of_more_than_an_hour_leaves_nothing_old() -> None:
    ring = Ring(0)
    for point in range(POINTS):
        ring.put(point, 1.0)
    ring.put(3 * POINTS, 2.0)
    assert known(ring.points(3 * POINTS)) == [None] * (POINTS - 1) + [2.0]


def test_an_old_figure_changes_nothing() -> None:
    ring = Ring(10)
    ring.put(10, 1.0)
    for point in (10, 9, -POINTS):
        ring.put(point, 5.0)
    assert known(ring.points(10))[-2:] == [None, 1.0]


def test_a_series_that_was_never_put_is_none() -> None:
    rings = Rings()
    assert rings.points(CLUSTER, Measure.lag, 5) is None
    rings.put(CLUSTER, Measure.lag, 5, nan)
    points = rings.points(CLUSTER, Measure.lag, 5)
    assert points is not None and known(points) == [None] * POINTS
    assert rings.count == 1 and CLUSTER in rings


def test_at_the_cap_a_subject_that_nobody_looks_at_gets_no_series() -> None:
    rings = Rings(series_max=2)
    assert [rings.put(topic(name), Measure.in_rate, 1, 1.0) for name in "abc"] == [True, True, False]
    assert rings.put(topic("a"), Measure.in_rate, 2, 1.0), "one that has its series keeps it"
    assert not rings.put(topic("a"), Measure.out_rate, 2, 1.0)
    assert rings.count == 2 and list(rings) == [topic("a"), topic("b")]


def test_at_the_cap_the_least_seen_goes() -> None:
    rings = Rings(series_max=3)
    for name in "abc":
        rings.put(topic(name), Measure.in_rate, 1, 1.0)
    for name in ("a", "d"):
        rings.see(topic(name))
    assert rings.put(topic("d"), Measure.in_rate, 1, 1.0)
    assert list(rings) == [topic("c"), topic("a"), topic("d")]
    assert rings.put(topic("d"), Measure.out_rate, 1, 1.0)
    assert list(rings) == [topic("a"), topic("d")]
    assert rings.count == 3


def test_the_whole_cluster_and_its_brokers_always_have_series() -> None:
    rings = Rings(series_max=2)
    for name in "ab":
        rings.put(topic(name), Measure.in_rate, 1, 1.0)
    assert rings.put(CLUSTER, Measure.lag, 1, 1.0)
    assert rings.put(Subject(Kind.broker, "h:1"), Measure.in_rate, 1, 1.0)
    assert not rings.put(Subject(Kind.broker, "h:2"), Measure.in_rate, 1, 1.0), "but within the bounds"
    assert rings.count == 2


def test_groups_take_the_places_of_topics() -> None:
    rings = Rings(series_max=2)
    for name in "ab":
        rings.put(topic(name), Measure.in_rate, 1, 1.0)
    groups = [Subject(Kind.group, name) for name in "ghi"]
    assert [rings.put(group, Measure.lag, 1, 1.0) for group in groups] == [True, True, False]
    assert list(rings) == groups[:2]
    rings.see(groups[0])
    rings.see(topic("c"))
    assert rings.put(topic("c"), Measure.in_rate, 1, 1.0), "one that is looked at takes the place of a group"
    assert list(rings) == [groups[0], topic("c")]


def test_only_the_last_seen_subjects_are_remembered() -> None:
    rings = Rings(series_max=1)
    rings.put(topic("a"), Measure.in_rate, 1, 1.0)
    for number in range(SEEN_MAX + 1):
        rings.see(topic(f"t{number}"))
    assert not rings.put(topic("t0"), Measure.in_rate, 1, 1.0)
    assert rings.put(topic("t1"), Measure.in_rate, 1, 1.0)


def test_subjects_that_are_gone_for_an_hour_are_forgotten() -> None:
    rings = Rings()
    rings.put(topic("a"), Measure.in_rate, 1, 1.0)
    rings.put(topic("b"), Measure.in_rate, 2, 1.0)
    rings.forget_old(POINTS + 1)
    assert list(rings) == [topic("b")] and rings.count == 1


def test_pairs_give_way_before_topics_and_topics_before_groups() -> None:
    rings = Rings(3)
    pair, topic, group = Subject(Kind.pair, "g", "t"), Subject(Kind.topic, "t"), Subject(Kind.group, "g")
    for subject in (topic, group, pair):
        assert rings.put(subject, Measure.lag, 1, 1.0)
    assert not rings.put(Subject(Kind.pair, "g", "other"), Measure.lag, 1, 1.0), "no room for one that nobody looks at"
    gone: list[Subject] = []
    for number in range(3):
        before = set(rings)
        rings.see(seen := Subject(Kind.group, f"seen{number}"))
        assert rings.put(seen, Measure.lag, 1, 1.0)
        gone += before - set(rings)
    assert gone == [pair, topic, group]
