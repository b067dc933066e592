"""Rows of all topics and groups, added up over brokers."""

from __future__ import annotations

from pymq.model.message import MessageQueue
from pymq.wire.bodies_admin import Connection, ConsumeOffset, ConsumerConnections, TopicLag, TopicOffset
from pymq.wire.bodies_rows import (
    GroupLag,
    GroupMembers,
    GroupPlaces,
    PairLag,
    TopicEnds,
    TopicPairs,
    TopicReaders,
    group_lag,
    group_members,
    group_places,
    lags_by_group,
    topic_ends,
    topic_readers,
)


def test_ends_add_up() -> None:
    one = TopicEnds(queues=8, end=10, stored=4, last_ms=7)
    assert one.plus(TopicEnds(queues=8, end=2, stored=2, last_ms=9)) == TopicEnds(
        queues=16, end=12, stored=6, last_ms=9
    )
    assert one.plus(TopicEnds(queues=8)) == TopicEnds(queues=16, end=10, stored=4, last_ms=7)
    assert TopicEnds().plus(TopicEnds()).last_ms is None


def test_topics_of_two_brokers_count_once_when_their_names_are_known() -> None:
    one, other = GroupLag(topics=2, lag=3, names=["a", "b"]), GroupLag(topics=2, lag=4, names=["b", "c"])
    assert (one.plus(other).topics, one.plus(other).names, one.plus(other).lag) == (3, ["a", "b", "c"], 7)
    assert one.plus(GroupLag(topics=2)).topics is None, "unknown, and not a wrong number"
    assert one.plus(GroupLag()).topics == 2, "no topic has no names"
    readers = TopicReaders(groups=1, names=["g"]).plus(TopicReaders(groups=1, names=["g"]))
    assert (readers.groups, readers.names) == (1, ["g"])
    assert TopicReaders(groups=1).plus(TopicReaders(groups=1)).groups is None


def test_members_of_two_brokers_count_once_when_their_ids_are_known() -> None:
    one = GroupMembers(members=2, model="CLUSTERING", differ=False, names=["a", "b"])
    both = one.plus(GroupMembers(members=1, differ=True, names=["a"]))
    assert both == GroupMembers(members=2, model="CLUSTERING", differ=True, names=["a", "b"])
    assert one.plus(GroupMembers(members=1)) == GroupMembers(model="CLUSTERING", differ=False, members=None)
    assert GroupMembers().plus(GroupMembers()) == GroupMembers(names=[])


def test_an_unknown_time_or_number_makes_the_sum_unknown() -> None:
    known = GroupLag(invisible=1, waiting_since_ms=5, consumed_ms=0)
    assert known.plus(GroupLag(waiting_since_ms=3, consumed_ms=9)) == GroupLag(
        invisible=1, waiting_since_ms=3, consumed_ms=9, names=[]
    )
    unknown = known.plus(GroupLag(invisible=None))
    assert (unknown.invisible, unknown.waiting_since_ms, unknown.consumed_ms) == (None, None, None)


def test_a_lag_is_unknown_where_nothing_is_committed() -> None:
    assert GroupLag().known_lag is None, "it reads no topic"
    assert GroupLag(topics=1).known_lag == 0
    assert GroupLag(topics=1, unknown_queues=1).known_lag is None
    assert GroupLag(topics=1, unknown_queues=1, lag=5).known_lag == 5
    assert TopicReaders(unknown_queues=1).known_lag is None and TopicReaders(groups=1).known_lag == 0
    assert TopicLag(unknown_queues=1).known_lag is None and TopicLag(queues=1).known_lag == 0


def test_a_group_is_the_sum_of_its_topics() -> None:
    lags = {
        "orders": TopicLag(queues=8, lag=5, committed=10, invisible=1, unknown_queues=1, waiting_since_ms=7),
        "bills": TopicLag(queues=8, committed=3, consumed_ms=4),
        "%RETRY%g": TopicLag(queues=1, lag=2, committed=1, unknown_queues=1, waiting_since_ms=9, consumed_ms=6),
    }
    expected = GroupLag(
        topics=2, lag=7, committed=14, offsets=17, unknown_queues=1, invisible=1, names=["bills", "orders"]
    )
    assert group_lag(lags, offsets=17) == expected
    timed = group_lag(lags, with_times=True)
    assert (timed.waiting_since_ms, timed.consumed_ms) == (7, 6), "of what waits"
    lags["orders"] = TopicLag(lag=5, invisible=None)
    timed = group_lag(lags, with_times=True)
    assert (timed.waiting_since_ms, timed.invisible) == (None, None), "RocketMQ's brokers do not say"
    assert (group_lag({}).waiting_since_ms, group_lag({}).consumed_ms) == (0, 0), "nothing waits"


def test_rows_are_made_of_the_answers_about_single_topics_and_groups() -> None:
    queues = [TopicOffset(min_offset=1, max_offset=4, last_update_timestamp=9), TopicOffset()]
    assert topic_ends(queues) == TopicEnds(queues=2, end=4, stored=3, last_ms=9)
    assert topic_ends([TopicOffset()]).last_ms is None
    lags = {"g": {"t": TopicLag(lag=1, committed=2)}, "h": {"t": TopicLag(lag=3, committed=4, unknown_queues=1)}}
    assert topic_readers(lags) == {
        "t": TopicReaders(groups=2, lag=4, committed=6, offsets=None, unknown_queues=1, names=["g", "h"])
    }
    table = {
        MessageQueue("t", "b", 1): ConsumeOffset(broker_offset=5, pymq_uncommitted=True),
        MessageQueue("t", "b", 0): ConsumeOffset(broker_offset=7, consumer_offset=3, pull_offset=4, pymq_invisible=2),
    }
    expected = GroupPlaces(ends=[7, 5], committed=[3, None], pulled=[4, None], invisible={0: 2})
    assert group_places(table, counts_invisible=True) == {"t": expected}
    assert group_places(table, counts_invisible=False)["t"].invisible is None
    online = ConsumerConnections(
        connection_set=[Connection(client_id=one) for one in "bab"], message_model="CLUSTERING"
    )
    assert group_members(online) == GroupMembers(members=2, model="CLUSTERING", differ=None, names=["a", "b"])
    online.pymq_differences = {"t": {"*": 1, "-": 1}}
    assert group_members(online).differ is True


def test_pairs_are_sorted_by_group() -> None:
    pairs = {
        "t": TopicPairs(queues=8, groups={"g": PairLag(5, 3, 1, 2), "h": PairLag(0, 8)}),
        "u": TopicPairs(queues=4, groups={"g": PairLag(1, 0)}),
    }
    assert lags_by_group(pairs) == {
        "g": {
            "t": TopicLag(queues=8, lag=5, committed=3, unknown_queues=1, invisible=2),
            "u": TopicLag(queues=4, lag=1, committed=0),
        },
        "h": {"t": TopicLag(queues=8, lag=0, committed=8)},
    }
