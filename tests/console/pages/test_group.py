"""One group: its lag, members, and subscriptions that differ."""

from __future__ import annotations

from typing import Any

from pymq.console.pages.group import group
from tests.console.pages.visits import FakeCluster, html_of, page_of


def about(**more: Any) -> dict[str, Any]:
    return {
        "group": "billing",
        "brokers": ["broker-a"],
        "enabled": True,
        "retry_max": 16,
        "retry_queues": 1,
        "model": "CLUSTERING",
        "consume_type": "CONSUME_PASSIVELY",
        "consume_from": None,
        "lag": None,
        "invisible": None,
        "members": [{"client_id": "10.0.0.9@1", "address": "10.0.0.9:1", "language": "JAVA", "version": "V5_3_3"}],
        "subscriptions": [],
        "differing_subscriptions": [],
        "progress": [],
        "filters": [],
    } | more


QUEUE = {
    "topic": "orders",
    "broker": "broker-a",
    "queue": 0,
    "committed": None,
    "end_offset": 500,
    "lag": None,
    "lag_ms": None,
    "last_consumed_ms": None,
}


def test_an_unknown_lag_is_a_dash_with_the_reason() -> None:
    html = html_of(group, FakeCluster({"group": (about(), [QUEUE])}), group="billing").text
    assert html.count('title="nothing is committed yet"') >= 2
    assert 'href="/at/prod/groups/billing/members/10.0.0.9%401"' in html
    assert "Members differ" not in html


def test_members_that_differ_are_shown() -> None:
    differing = [
        {"topic": "orders", "selection": "paid", "members": 1},
        {"topic": "orders", "selection": "*", "members": 1},
    ]
    html = html_of(group, FakeCluster({"group": (about(differing_subscriptions=differing), [])}), group="billing").text
    assert "Members differ" in html and "paid" in html


def test_an_off_line_group_keeps_its_offsets() -> None:
    cluster = FakeCluster({"group": (about(members=[], model=None), [QUEUE])}, {"broker-b": "timed out"})
    page = page_of(group, cluster, group="billing")
    assert page.missing == {"broker-b": "timed out"} and page.data["queues"] == [QUEUE]
    assert "No member is connected: offsets stay" in html_of(group, cluster, group="billing").text
