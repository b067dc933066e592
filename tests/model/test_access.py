"""Needs for topics: those that follow their group, and those that hold messages of all others."""

from __future__ import annotations

import pytest

from pymq.model.access import EVERY_NAME, Action, Resource, ResourceKind, owning_group, topic_need
from pymq.model.names import HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC, TRACE_TOPIC, dlq_topic, retry_topic
from pymq.model.pop import retry_topic_v1, retry_topic_v2, revive_topic


@pytest.mark.parametrize(
    ("topic", "group"),
    [
        ("orders", None),
        ("a%RETRY%g", None),
        (retry_topic("g"), "g"),
        (dlq_topic("g"), "g"),
        (retry_topic("ns%g"), "ns%g"),
        (retry_topic_v2("g", "orders"), "g"),
        (retry_topic_v1("g", "orders"), "g_orders"),
    ],
)
def test_retry_and_dead_letter_topics_follow_their_group(topic: str, group: str | None) -> None:
    assert owning_group(topic) == group
    need = topic_need(topic, Action.SUB)
    assert need.resource == (
        Resource(ResourceKind.TOPIC, topic) if group is None else Resource(ResourceKind.GROUP, group)
    )


def test_a_light_queue_follows_its_parent_topic() -> None:
    assert topic_need("%LMQ%$T$%RETRY%g", Action.SUB, Action.GET) == topic_need("T", Action.SUB, Action.GET)
    assert topic_need("%LMQ%$T", Action.SUB).resource == Resource(ResourceKind.TOPIC, "%LMQ%$T")


def test_a_member_of_the_group_may_send_to_its_retry_topic() -> None:
    assert topic_need(retry_topic("g"), Action.PUB).actions == (Action.SUB,)
    assert topic_need(retry_topic("g"), Action.PUB, Action.SUB, Action.GET).actions == (Action.SUB, Action.GET)
    assert topic_need(retry_topic("g"), Action.DELETE).actions == (Action.DELETE,)
    assert topic_need("orders", Action.PUB).actions == (Action.PUB,)


@pytest.mark.parametrize("topic", [SCHEDULE_TOPIC, HALF_TOPIC, TIMER_TOPIC, revive_topic("C")])
def test_a_topic_with_messages_of_all_others_needs_all_clusters(topic: str) -> None:
    assert topic_need(topic, Action.SUB).resource == Resource(ResourceKind.CLUSTER, EVERY_NAME)


def test_the_trace_topic_is_a_topic() -> None:
    assert str(topic_need(TRACE_TOPIC, Action.PUB)) == f"Pub on Topic:{TRACE_TOPIC}"
    assert str(topic_need("t", Action.SUB, Action.GET)) == "Sub or Get on Topic:t"
