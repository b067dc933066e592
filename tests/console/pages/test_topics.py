"""The list of topics: searched, sorted, and honest about what is unknown."""

from __future__ import annotations

from typing import Any

from pymq.console.pages.topics import topics
from pymq.operations.topic.table import TopicTable
from tests.console.pages.visits import FakeCluster, html_of, page_of


def row(topic: str, kind: str = "application", **more: Any) -> dict[str, Any]:
    return {
        "topic": topic,
        "kind": kind,
        "type": "NORMAL",
        "brokers": ["broker-a"],
        "read_queues": 8,
        "write_queues": 8,
        "perm": "RW",
        "queues": [{"broker": "broker-a", "read_queues": 8, "write_queues": 8, "perm": "RW"}],
        "stored": 5,
        "last_ms": 1_700_000_000_000,
    } | more


TABLE = TopicTable(
    [
        row("orders", stored=None, last_ms=None),
        row("bills", stored=7),
        row("%RETRY%g", "retry"),
        row("empty", stored=0, last_ms=None),
        row("differs", read_queues=None, queues=[{"read_queues": 4}, {"read_queues": 8}]),
    ],
    {"broker-b": "refused with code 16"},
)


def cluster() -> FakeCluster:
    return FakeCluster({"topic table": TABLE}, {"broker-c": "timed out"})


def test_topics_of_applications_come_by_name() -> None:
    page = page_of(topics, cluster())
    assert [each["topic"] for each in page.data["topics"]] == ["bills", "differs", "empty", "orders"]
    assert page.missing == {"broker-c": "timed out", "broker-b": "stored messages are unknown: refused with code 16"}
    assert page.command == ("topic", "list")


def test_the_search_takes_all_kinds_when_asked() -> None:
    page = page_of(topics, cluster(), "kind=all&q=RETRY")
    assert [each["topic"] for each in page.data["topics"]] == ["%RETRY%g"] and page.command == (
        "topic",
        "list",
        "--all",
    )


def test_unknown_figures_come_last_in_either_order() -> None:
    for order in ("up", "down"):
        page = page_of(topics, cluster(), f"sort=stored&order={order}")
        assert page.data["topics"][-1]["topic"] == "orders"


def test_unknown_is_a_dash_and_never_is_never() -> None:
    html = html_of(topics, cluster()).text
    assert 'title="a broker did not tell"' in html or "title=" in html
    assert "never" in html and "4, 8" in html and 'href="/at/prod/topics/orders"' in html


def test_no_match_and_no_topic_are_different() -> None:
    assert "No topic of this kind" in html_of(topics, cluster(), "q=zzz").text
    assert "pymq topic create" in html_of(topics, FakeCluster({"topic table": TopicTable([], {})})).text


def test_brokers_that_did_not_answer_do_not_look_like_no_topics() -> None:
    cluster = FakeCluster({"topic table": TopicTable([], {})}, {"broker-c": "timed out"})
    assert "Of what was answered: No topics" in html_of(topics, cluster).text
    assert "Of what was answered" not in html_of(topics, FakeCluster({"topic table": TopicTable([], {})})).text
