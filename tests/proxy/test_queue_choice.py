"""The queue of a message group."""

from __future__ import annotations

from pymq.model.consistent_hash import consistent_bucket
from pymq.model.message import MessageQueue
from pymq.proxy.queue_choice import queue_of_group


def test_a_group_keeps_its_queue_and_groups_spread() -> None:
    queues = [MessageQueue("T", "b", i) for i in range(8)]
    chosen = {f"group-{i}": queue_of_group(queues, f"group-{i}") for i in range(400)}
    assert all(queue_of_group(queues, group) == queue for group, queue in chosen.items())
    counts = [list(chosen.values()).count(queue) for queue in queues]
    assert min(counts) > 20


def test_a_further_queue_takes_groups_and_moves_no_others() -> None:
    for key in range(-500, 500):
        before, after = consistent_bucket(key, 8), consistent_bucket(key, 9)
        assert after in (before, 8)


def test_the_buckets_are_those_of_guava() -> None:
    # Golden values of com.google.common.hash.Hashing.consistentHash.
    assert [consistent_bucket(10863919174838991, 11), consistent_bucket(2016238256797177309, 11)] == [6, 3]
    assert [consistent_bucket(1673758223894951030, 11), consistent_bucket(2, 100001)] == [5, 80343]
    assert [consistent_bucket(2201, 100001), consistent_bucket(2202, 100001)] == [22152, 15018]
