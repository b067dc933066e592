"""Clients: members lead to a page of their own, producers to none."""

from __future__ import annotations

from typing import Any

from pymq.console.pages.clients import clients
from tests.console.pages.visits import FakeCluster, html_of, page_of


def client(kind: str, group: str) -> dict[str, Any]:
    return {
        "client_id": f"<{kind}>@1",
        "kind": kind,
        "group": group,
        "address": "10.0.0.9:1",
        "language": "JAVA",
        "version": "V5_3_3",
        "brokers": ["broker-a", "broker-b"],
    }


def test_a_member_has_a_page_and_a_producer_has_none() -> None:
    html = html_of(clients, FakeCluster({"clients": [client("consumer", "a/b"), client("producer", "p")]})).text
    assert 'href="/at/prod/groups/a%2Fb/members/%3Cconsumer%3E%401"' in html
    assert "&lt;producer&gt;@1" in html and "members/%3Cproducer" not in html
    assert "broker-a, broker-b" in html


def test_no_client_is_different_from_a_broker_that_does_not_answer() -> None:
    cluster = FakeCluster({"clients": []}, {"broker-b": "timed out"})
    assert page_of(clients, cluster).missing == {"broker-b": "timed out"}
    html = html_of(clients, cluster).text
    assert "No client is connected." in html and "broker-b" in html
