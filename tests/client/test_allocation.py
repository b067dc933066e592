"""Rebalance strategies: the shares of the members cover every queue once."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pymq.client.allocation import strategy_named
from pymq.errors import UsageError
from pymq.model.allocation import STRATEGIES, average, average_by_circle
from pymq.model.message import MessageQueue


def queues(count: int) -> Any:
    return [MessageQueue("T", "broker-a", i) for i in range(count)]


def ids(result: Any) -> Any:
    return [queue.queue_id for queue in result]


def test_average_gives_neighbours_and_the_first_clients_one_more() -> None:
    # Java: AllocateMessageQueueAveragely with 8 queues and 3 clients gives 3, 3 and 2.
    shares = [ids(average(client, queues(8), ["c2", "c0", "c1"])) for client in ("c0", "c1", "c2")]
    assert shares == [[0, 1, 2], [3, 4, 5], [6, 7]]


def test_average_leaves_late_clients_without_queues() -> None:
    assert [ids(average(c, queues(2), ["a", "b", "c"])) for c in "abc"] == [[0], [1], []]


def test_by_circle_deals_like_cards() -> None:
    assert [ids(average_by_circle(c, queues(8), ["a", "b", "c"])) for c in "abc"] == [[0, 3, 6], [1, 4, 7], [2, 5]]


def test_queues_are_ordered_by_broker_then_number() -> None:
    mixed = [MessageQueue("T", "b", 0), MessageQueue("T", "a", 1), MessageQueue("T", "a", 0)]
    assert average("x", mixed, ["x"]) == sorted(mixed)


@pytest.mark.parametrize("name", sorted(STRATEGIES))
def test_a_client_that_is_not_a_member_gets_no_queue(name: Any) -> None:
    assert strategy_named(name)("unknown", queues(4), ["a", "b"]) == []


@pytest.mark.parametrize("name", sorted(STRATEGIES))
@given(queue_count=st.integers(0, 40), clients=st.sets(st.text(max_size=3), min_size=1, max_size=12))
def test_shares_cover_all_queues_once_and_differ_by_one_at_most(name: Any, queue_count: int, clients: Any) -> None:
    shares = [strategy_named(name)(client, queues(queue_count), list(clients)) for client in clients]
    assert sorted(queue for share in shares for queue in share) == queues(queue_count)
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_an_unknown_strategy_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match="AVG, AVG_BY_CIRCLE"):
        strategy_named("RANDOM")
