"""Lags by topic are kept for groups that someone looks at, and for those that are most behind."""

from __future__ import annotations

import pytest

from pymq.clock import ManualClock
from pymq.console.history.pairs import (
    TOPICS_OF_GROUP_MAX,
    WATCHED_MAX,
    WATCHED_MS,
    WORST_GROUPS_MAX,
    WORST_PAIRS_MAX,
    Pairs,
    sum_by_topic,
)
from pymq.wire.bodies_rows import BY_TOPIC_MAX, GroupLag


def test_groups_that_were_looked_at_are_asked_for_ten_minutes() -> None:
    clock = ManualClock()
    pairs = Pairs(clock)
    pairs.watch("billing", "orders")
    clock.advance(WATCHED_MS - 1)
    pairs.watch("audit", "orders")
    assert pairs.groups({}) == ["billing", "audit"]
    clock.advance(1)
    assert pairs.groups({}) == ["audit"]


def test_of_many_that_were_looked_at_the_last_ones_stay() -> None:
    pairs = Pairs(ManualClock())
    pairs.watch("again", "t")
    for number in range(WATCHED_MAX - 1):
        pairs.watch(f"g{number}", "t")
    pairs.watch("again", "t")
    pairs.watch("new", "t")
    found = pairs.groups({})
    assert len(found) == WATCHED_MAX and "g0" not in found and found[-2:] == ["again", "new"]


def test_the_groups_that_are_most_behind_are_asked_for_too() -> None:
    pairs = Pairs(ManualClock())
    pairs.watch("g9", "t")
    lags: dict[str, int | None] = {f"g{number}": number for number in range(10)}
    lags |= {"unknown": None, "has all": 0}
    assert pairs.groups(lags) == ["g9", "g8", "g7", "g6", "g5"]
    assert WORST_GROUPS_MAX == 5 and len(pairs.groups({**lags, "g9": 0})) == WORST_GROUPS_MAX + 1


def test_the_most_behind_get_points_and_of_the_others_those_that_had_some() -> None:
    pairs = Pairs(ManualClock())
    pairs.watch("billing", "calm")
    lags = {("billing", f"t{number}"): number for number in range(TOPICS_OF_GROUP_MAX + 5)}
    lags |= {("audit", f"t{number}"): number for number in range(WORST_PAIRS_MAX + 5)}
    lags |= {("billing", "calm"): 0, ("audit", "calm"): 0}
    found = pairs.chosen(lags, ())
    billing = [topic for group, topic in found if group == "billing"]
    audit = [topic for group, topic in found if group == "audit"]
    assert billing[0] == "calm", "it is on the page"
    assert billing[1] == f"t{TOPICS_OF_GROUP_MAX + 4}" and len(billing) == TOPICS_OF_GROUP_MAX
    assert len(audit) == WORST_PAIRS_MAX and audit[-1] == "t5" and "calm" not in audit


@pytest.mark.parametrize("is_known", [False, True])
def test_a_lag_that_became_0_is_seen_where_it_had_a_series(is_known: bool) -> None:
    pair = ("audit", "orders")
    assert Pairs(ManualClock()).chosen({pair: 0}, {pair} if is_known else ()) == ([pair] if is_known else [])


def test_what_was_not_answered_gets_no_point() -> None:
    assert Pairs(ManualClock()).chosen({}, {("audit", "orders")}) == []


def test_lags_of_all_brokers_are_added_and_what_one_of_them_may_have_left_out_is_unknown() -> None:
    first, second = GroupLag(by_topic={"a": 1, "b": 2}), GroupLag(by_topic={"b": 3})
    assert sum_by_topic([first, second]) == {"a": 1, "b": 5}
    assert sum_by_topic([first, GroupLag()]) == {} == sum_by_topic([])
    full = GroupLag(by_topic={"b": 7} | {f"t{number}": 9 for number in range(BY_TOPIC_MAX - 1)})
    found = sum_by_topic([first, full])
    assert found["b"] == 9 and "a" not in found and len(found) == BY_TOPIC_MAX
