"""One group: its lag, members, and subscriptions that differ."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from pymq.console.pages.group import group
from pymq.console.pages.page import Page
from pymq.errors import NotFoundError, RefusedError
from tests.console.pages.visits import FakeCluster, html_of, page_of, visit


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


def topic(name: str = "orders", **more: Any) -> dict[str, Any]:
    figures = {"queues": 8, "lag": 0, "lag_ms": None, "invisible": 0, "retry": 0, "unknown_queues": 0}
    return {"topic": name} | figures | more


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


def cluster_of(queues: Any = (), unreached: dict[str, str] | None = None, **more: Any) -> FakeCluster:
    """Return a cluster with a group that reads one topic."""
    record = about(**({"progress": [topic()]} | more))
    waits = [one | {"lag_ms": 5000} for one in record["progress"]]
    return FakeCluster({"group": record, "lag by queue": queues, "waits": waits}, unreached)


def test_an_unknown_lag_is_a_dash_with_the_reason() -> None:
    html = html_of(group, cluster_of([QUEUE]), group="billing").text
    assert html.count('title="nothing is committed yet"') >= 2
    assert 'href="/at/prod/groups/billing/members/10.0.0.9%401"' in html
    assert "Members differ" not in html


def test_members_that_differ_are_shown() -> None:
    differing = [
        {"topic": "orders", "selection": "paid", "members": 1},
        {"topic": "orders", "selection": "*", "members": 1},
    ]
    html = html_of(group, cluster_of([], differing_subscriptions=differing), group="billing").text
    assert "Members differ" in html and "paid" in html


def test_an_off_line_group_keeps_its_offsets() -> None:
    cluster = cluster_of([QUEUE], {"broker-b": "timed out"}, members=[], model=None)
    page = page_of(group, cluster, group="billing")
    assert page.missing == {"broker-b": "timed out"} and page.data["queues"] == [QUEUE]
    assert "No member is connected: offsets stay" in html_of(group, cluster, group="billing").text


def test_a_group_of_many_topics_shows_a_page_of_them_and_the_queues_of_the_one_most_behind() -> None:
    topics = [topic(f"t{number:04}", lag=7 if number == 3 else 1, lag_ms=1000) for number in range(1000)]
    queues = [QUEUE | {"topic": "t0003", "queue": number} for number in range(64)]
    cluster = cluster_of(queues, progress=topics)
    page = page_of(group, cluster, group="billing")
    assert cluster.asked == [("group", "billing"), ("lag by queue", "billing", "t0003")], "no question a row"
    assert [row["topic"] for row in page.data["progress"]] == [f"t{number:04}" for number in range(20)]
    assert page.data["lists"]["progress"] == {"total": 1000, "page": 1, "pages": 50}
    assert page.data["lists"]["queues"] == {"total": 64, "page": 1, "pages": 4} and page.data["topic"] == "t0003"
    html = html_of(group, cluster, group="billing").text
    assert len(html.encode()) < 30_000 and "1 to 20 of 1,000" in html and "Lag by queue of t0003" in html
    assert 'href="?progress-page=2#progress"' in html
    assert 'href="/at/prod/groups/billing?topic=t0007#queues"' in html


def test_lists_are_searched_and_sorted_each_for_itself() -> None:
    topics = [topic(f"t{number:04}", lag=number, lag_ms=1) for number in range(100)]
    cluster = cluster_of([QUEUE], progress=topics)
    query = "progress-sort=lag&progress-order=down&progress-q=t00&topic=t0042&members-page=1"
    page = page_of(group, cluster, query, group="billing")
    assert [row["lag"] for row in page.data["progress"][:2]] == [99, 98] and page.data["topic"] == "t0042"
    html = html_of(group, cluster, query, group="billing").text
    assert '<input type="hidden" name="topic" value="t0042">' in html
    assert 'name="progress-q" value="t00"' in html and '<option value="lag" selected>' in html
    none = html_of(group, cluster, "progress-q=nothing", group="billing").text
    assert "No row of this list has this text." in none and 'value="nothing"' in none


def test_how_long_messages_wait_is_asked_for_the_shown_topics_alone() -> None:
    topics = [topic(f"t{number:04}", lag=1) for number in range(30)]
    cluster = cluster_of([QUEUE], progress=topics)
    page = page_of(group, cluster, "progress-rows=2", group="billing")
    assert ("waits", "billing", ("t0000", "t0001")) in cluster.asked
    assert page.data["progress"][0]["lag_ms"] == 5000
    cluster.answers = {**cluster.answers, "waits": RefusedError(16, "may not")}
    assert page_of(group, cluster, group="billing").data["progress"][0]["lag_ms"] is None


def test_queues_that_could_not_be_asked_do_not_look_like_none() -> None:
    cluster = cluster_of(NotFoundError("no topic gone"))
    page = page_of(group, cluster, "topic=gone", group="billing")
    assert page.missing == {"queues of gone": "no topic gone"}
    html = html_of(group, cluster, "topic=gone", group="billing").text
    assert "Its queues are not known." in html and "has read no queue" not in html


@pytest.mark.parametrize("wrong", ["topic=a&topic=b", "topic=" + "x" * 5000, "queues-page=0", "members-rows=101"])
def test_wrong_parameters_are_named(wrong: str) -> None:
    answer = html_of(group, cluster_of([QUEUE]), wrong, group="billing")
    assert answer.status == 400 and wrong.partition("=")[0] in answer.text


def test_a_group_that_read_nothing_asks_for_no_queues() -> None:
    cluster = cluster_of(progress=[])
    assert page_of(group, cluster, group="billing").data["queues"] == [] and cluster.asked == [("group", "billing")]


def test_changes_of_a_group_are_links_where_they_are_allowed() -> None:
    def links(*, allows_changes: bool) -> list[str]:
        visited = replace(visit(FakeCluster({"group": about()}), group="billing"), allows_changes=allows_changes)
        page = asyncio.run(group(visited))
        assert isinstance(page, Page)
        return [path for _, path in page.shown["links"]]

    assert links(allows_changes=False) == ["dlq/billing"]
    changes = ["groups/billing/reset", "dlq/billing/resend", "groups/billing/update", "groups/billing/delete"]
    assert links(allows_changes=True) == ["dlq/billing", *changes]
