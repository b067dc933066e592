"""A member of a group: what it says, and what it does not."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from pymq.console.pages.member import LINKS_MAX, member
from pymq.console.pages.page import Page
from tests.console.pages.visits import FakeCluster, html_of, page_of, visit


def about(**more: Any) -> dict[str, Any]:
    return {
        "client_id": "10.0.0.9@4711",
        "group": "billing",
        "address": "10.0.0.9:50000",
        "language": "JAVA",
        "version": "V5_3_3",
        "properties": {"PROP_CLIENT_VERSION": "<b>V5</b>"},
        "subscriptions": [{"topic": "orders", "expression": "*", "type": "TAG"}],
        "queues": [
            {
                "topic": "orders",
                "broker": "broker-a",
                "queue": 0,
                "committed": 7,
                "cached": None,
                "last_pull_ms": None,
                "last_consumed_ms": 0,
                "locked": None,
            }
        ],
        "rates": [],
        "stack": None,
    } | more


def shown(query: str = "", **more: Any) -> str:
    return html_of(
        member, FakeCluster({"member": (about(**more), "")}), query, group="billing", client="10.0.0.9@4711"
    ).text


def test_a_member_shows_its_queues_and_hides_nothing_that_it_did_not_say() -> None:
    html = shown()
    assert 'title="the member does not say it"' in html and "never" in html and "It says no rates." in html
    assert "&lt;b&gt;V5&lt;/b&gt;" in html


def test_stacks_are_asked_for_by_a_link() -> None:
    assert 'href="?stack=1"' in shown()
    assert '<pre tabindex="0">main\n at work</pre>' in shown("stack=1", stack="main\n at work")
    assert "too old for it" in shown("stack=1")
    cluster = FakeCluster({"member": (about(), "")})
    page = page_of(member, cluster, "stack=1", group="billing", client="c")
    assert page.command == ("group", "client", "billing", "c", "--stack")
    assert cluster.asked == [("member", "billing", "c", True)]


def test_a_stack_is_text() -> None:
    assert '<pre tabindex="0">&lt;b&gt;\n at \\x1bwork</pre>' in shown("stack=1", stack="<b>\n at \x1bwork")


def test_a_member_that_can_not_be_asked_shows_what_its_broker_knows() -> None:
    unknown = dict.fromkeys(("properties", "subscriptions", "queues", "rates", "stack"))
    cluster = FakeCluster({"member": (about(**unknown), "it did not answer in time")})
    page = page_of(member, cluster, group="billing", client="c")
    assert page.missing == {"what the member says": "it did not answer in time"} and page.data["queues"] is None
    html = html_of(member, cluster, group="billing", client="c").text
    assert "10.0.0.9:50000" in html and "it did not answer in time" in html
    assert "It owns no queue" not in html and "Threads" not in html


def links(silence: str = "", *, allows_changes: bool = True) -> list[tuple[str, str]] | None:
    topics = ["%RETRY%billing", *(f"t/{number}" for number in range(LINKS_MAX + 1))]
    subscriptions = [{"topic": topic, "expression": "*", "type": "TAG"} for topic in topics]
    said = about(subscriptions=None if silence else subscriptions)
    visited = visit(FakeCluster({"member": (said, silence)}), group="billing", client="c")
    page = asyncio.run(member(replace(visited, allows_changes=allows_changes)))
    assert isinstance(page, Page)
    return page.shown.get("links")


def test_a_member_leads_to_messages_that_it_may_handle() -> None:
    found = links() or []
    assert found[0] == ("Choose a message of t/0 that it handles", "messages?topic=t%2F0") and len(found) == LINKS_MAX
    assert links(allows_changes=False) is None and links("it does not answer") is None
