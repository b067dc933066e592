"""Which topics and queues a read takes."""

from __future__ import annotations

from typing import Any

import pytest

from pymq.errors import NotFoundError, UsageError
from pymq.spark.planning.cluster import RemoteCluster
from pymq.spark.planning.topics import TopicChoice, choose_topics, parse_assigned, parse_pattern
from tests.spark.fake_cluster import FakeCluster
from tests.spark.record_bytes import record


@pytest.fixture
def view() -> Any:
    with FakeCluster() as fake:
        for queue_id in range(3):
            fake.add("orders", queue_id, [record(0)])
        fake.add("orders-eu", 0, [record(0)])
        with RemoteCluster(fake.address) as remote:
            yield remote


def test_topics_by_name_glob_and_all(view: RemoteCluster) -> None:
    assert choose_topics(view, ()) == ["orders", "orders-eu"]
    assert choose_topics(view, ("orders-*", "other")) == ["orders-eu", "other"]
    assert choose_topics(view, ("%RETRY%*",)) == ["%RETRY%g"]
    assert choose_topics(view, ("!orders",)) == choose_topics(view, ("*", "!orders")) == ["orders-eu"]
    assert choose_topics(view, ("!orders-*", "orders*", "other")) == ["orders", "other"]
    with pytest.raises(NotFoundError, match="no topic matches 'x\\*': there are orders, orders-eu"):
        choose_topics(view, ("x*",))


def test_topics_by_a_regular_expression(view: RemoteCluster) -> None:
    assert TopicChoice(pattern="orders(-eu)?").topics(view) == ["orders", "orders-eu"]
    assert TopicChoice(pattern="orders").topics(view) == ["orders"]
    with pytest.raises(NotFoundError, match="'order'"):
        TopicChoice(pattern="order").topics(view)
    with pytest.raises(UsageError, match="position 0"):
        parse_pattern("(")


@pytest.mark.parametrize("text", ['{"orders": [2, 0]}', '{"orders": {"broker-a": [0, 2]}}'])
def test_assigned_queues(view: RemoteCluster, text: str) -> None:
    choice = TopicChoice(assigned=parse_assigned(text))
    assert choice.topics(view) == ["orders"]
    assert [queue.queue_id for queue in choice.all_queues(view)] == [0, 2]


@pytest.mark.parametrize("text", ['{"orders": [0, 7]}', '{"orders": {"broker-x": [0]}}'])
def test_assigned_queues_that_do_not_exist(view: RemoteCluster, text: str) -> None:
    choice = TopicChoice(assigned=parse_assigned(text))
    with pytest.raises(NotFoundError, match="it has broker-a/0, broker-a/1, broker-a/2"):
        choice.all_queues(view)


@pytest.mark.parametrize("text", ["[]", '{"orders": "0"}', "x"])
def test_other_forms_of_assign_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not of the form"):
        parse_assigned(text)
