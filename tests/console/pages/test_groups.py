"""The list of groups: states, and lags that are unknown."""

from __future__ import annotations

from typing import Any

from pymq.client.admin.rows import Rows
from pymq.console.pages.groups import groups
from pymq.wire.bodies_rows import GroupLag
from tests.console.pages.visits import FakeCluster, html_of, page_of


def group(name: str, **more: Any) -> dict[str, Any]:
    return {
        "group": name,
        "brokers": ["broker-a"],
        "members": 2,
        "lag": 12000,
        "invisible": 0,
        "retry_max": 16,
        "enabled": True,
        "ordered": False,
        "broadcast_allowed": True,
    } | more


def cluster(*found: dict[str, Any]) -> FakeCluster:
    lags = {each["group"]: GroupLag(topics=0 if each["lag"] is None else 1, lag=each["lag"] or 0) for each in found}
    return FakeCluster({"groups": list(found), "lags": Rows(lags)})


def test_states_are_words() -> None:
    html = html_of(
        groups,
        cluster(
            group("on"),
            group("off", members=0, lag=None),
            group("hidden", members=None),
            group("stopped", enabled=False),
            group("part", enabled="only on broker-a", ordered=True),
        ),
    ).text
    for text in ("12,000", "off-line", "on-line, disabled", "on-line, only on broker-a, in order"):
        assert text in html
    assert "the group has no offset in queues with messages" in html


def test_groups_are_sorted_by_lag_with_the_unknown_last() -> None:
    page = page_of(groups, cluster(group("a", lag=1), group("b", lag=None), group("c", lag=9)), "sort=lag&order=down")
    assert [row["group"] for row in page.data["groups"]] == ["c", "a", "b"]


def test_no_groups_says_how_one_comes() -> None:
    assert "pymq group create" in html_of(groups, cluster()).text
    assert "No group like this." in html_of(groups, cluster(group("a")), "q=zz").text
