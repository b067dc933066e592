"""One topic: its brokers, queues, route and groups."""

from __future__ import annotations

from typing import Any

from pymq.console.pages.topic import topic
from tests.console.pages.visits import FakeCluster, html_of, page_of

ABOUT = {
    "topic": "orders",
    "groups": ["bill/ing"],
    "brokers": [
        {
            "broker": "broker-a",
            "cluster": "DefaultCluster",
            "address": "10.0.0.1:10911",
            "read_queues": 8,
            "write_queues": 8,
            "perm": "RW",
            "order": False,
            "messages": None,
        }
    ],
}
QUEUES: list[dict[str, Any]] = [
    {"broker": "broker-a", "queue": 0, "min_offset": 0, "max_offset": 0, "messages": 0, "last_message_ms": 0}
]


def test_a_topic_leads_to_its_groups_and_says_what_is_unknown() -> None:
    cluster = FakeCluster({"topic": (ABOUT, QUEUES, [])}, {"broker-b": "timed out"})
    page = page_of(topic, cluster, topic="orders")
    assert page.data["queues"] == QUEUES and page.missing == {"broker-b": "timed out"}
    assert page.command == ("topic", "describe", "orders")
    html = html_of(topic, cluster, topic="orders").text
    assert 'href="/at/prod/groups/bill%2Fing"' in html and "Name servers know no broker with this topic." in html
    assert 'title="a server did not say it"' in html and "never" in html
