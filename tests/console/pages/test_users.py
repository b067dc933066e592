"""Users and rules; brokers without users; and a decision."""

from __future__ import annotations

from typing import Any

import pytest

from pymq.console.pages.users import users_page
from pymq.console.web.parameters import BadRequest
from pymq.errors import NotFoundError, RefusedError
from tests.console.pages.visits import FakeCluster, html_of, page_of

USER = {"user": "billing", "type": "Normal", "enabled": True, "brokers": ["broker-a"]}
RULE = {
    "user": "billing",
    "resource": "Topic:orders",
    "actions": ["Sub"],
    "effect": "Allow",
    "sources": [],
    "level": "Custom",
    "brokers": ["broker-a"],
}
DECISION = {
    "allowed": False,
    "why": "no rule allows it",
    "user": "billing",
    "type": "Normal",
    "enabled": True,
    "action": "Pub",
    "resource": "Topic:orders",
    "source": "127.0.0.1",
    "rules": [{"level": "Custom", "rule": "Allow Sub", "applies": False, "why_not": "another action"}],
}
ASKED = "user=billing&action=Pub&resource=Topic:orders"


def cluster(**answers: Any) -> FakeCluster:
    return FakeCluster({"users": ([USER], [RULE]), "decision": DECISION} | answers)


def test_users_and_rules_are_listed_and_nothing_is_decided() -> None:
    asked = cluster()
    page = page_of(users_page, asked)
    assert (page.data["users"], page.data["rules"], page.data["decision"]) == ([USER], [RULE], None)
    assert page.command == ("auth", "user", "list") and asked.asked == ["users"]


def test_a_decision_shows_each_rule_that_was_looked_at() -> None:
    page = page_of(users_page, cluster(), ASKED)
    assert page.data["decision"] == DECISION
    assert page.command == ("auth", "check", "billing", "Pub", "Topic:orders")
    html = html_of(users_page, cluster(), ASKED).text
    assert "May billing do Pub on Topic:orders?" in html and "another action" in html and "no rule allows it" in html


def test_an_unknown_user_leaves_the_lists() -> None:
    page = page_of(users_page, cluster(decision=NotFoundError("no user 'billing'")), ASKED)
    assert page.missing == {"decision": "no user 'billing'"} and page.data["users"] == [USER]


@pytest.mark.parametrize(
    "error",
    [
        RefusedError(3, "request type 3005 not supported"),
        RefusedError(1, "java.lang.IllegalStateException: The authorizationMetadataProvider is not configured., ..."),
    ],
)
def test_brokers_without_users_say_how_to_get_them(error: RefusedError) -> None:
    off = cluster(users=error)
    assert page_of(users_page, off).missing == {}
    assert "authenticationEnabled=true" in html_of(users_page, off).text


def test_a_missing_right_is_a_refusal_of_the_page() -> None:
    with pytest.raises(RefusedError):
        page_of(users_page, cluster(users=RefusedError(16, "has no permission to access Cluster:*")))


@pytest.mark.parametrize("query", ["action=All", "user=" + "x" * 256, "resource=a&resource=b"])
def test_a_wrong_question_is_refused(query: str) -> None:
    with pytest.raises(BadRequest):
        page_of(users_page, cluster(), query)


def test_a_visitor_names_no_file_of_the_server() -> None:
    asked = cluster(decision=NotFoundError("no user"))
    page_of(users_page, asked, "user=certificate:/etc/passwd&resource=Topic:a")
    assert asked.asked[1] == ("decision", "certificate:/etc/passwd", "Pub", "Topic:a", "127.0.0.1")
