"""Name servers: one that is down leaves the others."""

from __future__ import annotations

from typing import Any

from pymq.console.pages.name_servers import name_servers
from pymq.errors import RefusedError, UnreachableError
from tests.console.pages.records import settings
from tests.console.pages.visits import FakeCluster, html_of, page_of

UP = {"address": "10.0.0.1:9876", "answers": True, "brokers": 2, "topics": 9, "problems": []}
DOWN = {"address": "10.0.0.2:9876", "answers": False, "brokers": None, "topics": None, "problems": ["timed out"]}


def cluster(**answers: Any) -> FakeCluster:
    return FakeCluster(
        {
            "name servers": [UP, DOWN],
            "values": [{"key": "orders", "value": "broker-a:4"}],
            "settings": settings("listenPort", silent="10.0.0.2:9876"),
        }
        | answers
    )


def test_a_name_server_that_is_down_is_missing_once() -> None:
    page = page_of(name_servers, cluster())
    assert page.missing == {"10.0.0.2:9876": "timed out"}
    html = html_of(name_servers, cluster()).text
    assert "broker-a:4" in html and "what listenPort means" in html and 'title="it does not answer"' in html


def test_settings_that_can_not_be_read_leave_the_rest() -> None:
    page = page_of(name_servers, cluster(settings=UnreachableError("no name server answers")))
    assert page.missing["settings"] == "no name server answers"
    assert page.data["name_servers"] == [UP, DOWN] and page.data["values"] and page.data["settings"] == []


def test_a_stranger_has_to_log_in_and_a_person_without_the_right_sees_the_rest() -> None:
    unproven = RefusedError(16, "username cannot be null.")
    assert html_of(name_servers, cluster(settings=unproven)).status == 303
    page = page_of(
        name_servers, cluster(settings=RefusedError(16, "User:reader has no permission to access Cluster:c"))
    )
    assert "no permission" in page.missing["settings"] and page.data["values"]


def test_values_of_another_namespace_are_asked_by_its_name() -> None:
    asked = cluster()
    page = page_of(name_servers, asked, "namespace=settings")
    assert ("values", "settings") in asked.asked and page.data["namespace"] == "settings"
    assert "Values of settings" in html_of(name_servers, cluster(), "namespace=settings").text
