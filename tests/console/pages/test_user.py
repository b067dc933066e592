"""The page of one user."""

from __future__ import annotations

from typing import Any

import pytest

from pymq.console.pages.user import user_page
from pymq.errors import NotFoundError, RefusedError
from tests.console.pages.test_users import RULE, USER
from tests.console.pages.visits import FakeCluster, html_of, page_of

FOUND: dict[str, Any] = USER | {"differs": True, "rules": [RULE]}


def test_a_user_is_shown_with_its_rules() -> None:
    page = page_of(user_page, FakeCluster({"user": FOUND}), user="billing")
    assert page.data["rules"] == [RULE] and page.data["differs"] is True
    assert page.command == ("auth", "user", "show", "billing")
    text = html_of(user_page, FakeCluster({"user": FOUND}), user="billing").text
    assert "Topic:orders" in text and "Differs between brokers" in text
    assert "Change it" not in text and "/rule" not in text, "this console only looks"


def test_a_user_without_rules_says_what_that_means() -> None:
    assert "may do nothing" in html_of(user_page, FakeCluster({"user": FOUND | {"rules": []}}), user="billing").text


def test_a_cluster_without_users_has_none() -> None:
    with pytest.raises(NotFoundError, match="keep no users"):
        page_of(user_page, FakeCluster({"user": RefusedError(3, "request type 3002 not supported")}), user="billing")


def test_an_unknown_user_is_not_found() -> None:
    with pytest.raises(NotFoundError):
        page_of(user_page, FakeCluster({"user": NotFoundError("no user")}), user="nobody")


def test_a_hostile_name_is_text() -> None:
    rule = RULE | {"user": "<b>\u202e", "resource": "Topic:<script>"}
    found = FOUND | {"user": "<b>\u202e", "rules": [rule]}
    text = html_of(user_page, FakeCluster({"user": found}), user="<b>\u202e").text
    assert "<b>" not in text and "<script>" not in text and "\u202e" not in text
