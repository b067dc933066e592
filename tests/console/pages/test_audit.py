"""The audit shows attempts of one context, to who may see the cluster."""

from __future__ import annotations

import pytest

from pymq.clock import ManualClock
from pymq.console.audit import Audit
from pymq.console.pages.audit import AuditPage
from pymq.errors import RefusedError
from tests.console.pages.visits import FakeCluster, html_of, page_of


def audit() -> Audit:
    clock = ManualClock()
    found = Audit(clock)
    for subject, context in (("topic orders", "prod"), ("topic <b>x</b>", "prod"), ("topic else", "test")):
        clock.advance(1000)
        about = {"person": "", "address": "10.0.0.9", "session": "abc", "context": context, "action": "topic create"}
        found.note(result="done", after={"n": 1}, subject=subject, **about)
    return found


def page(found: Audit, query: str = "", cluster: FakeCluster | None = None) -> list[str]:
    shown = AuditPage(found.newest, lambda: found.problem)
    made = page_of(shown.page, cluster or FakeCluster({"may see": None}), query, context="prod")
    return [row["subject"] for row in made.data["attempts"]]


def test_the_newest_attempts_of_the_context_come_first() -> None:
    assert page(audit()) == ["topic <b>x</b>", "topic orders"]
    assert page(audit(), "q=ORDERS") == ["topic orders"]


def test_who_may_not_see_the_cluster_sees_no_audit() -> None:
    with pytest.raises(RefusedError):
        page(audit(), cluster=FakeCluster({"may see": RefusedError(16, "has no permission to access Cluster:*")}))


def test_texts_are_texts_and_a_file_that_fails_is_named() -> None:
    shown = AuditPage(audit().newest, lambda: "audit.log can't be written")
    html = html_of(shown.page, FakeCluster({"may see": None}), context="prod").text
    assert "&lt;b&gt;x" in html and "audit.log can&#39;t be written" in html
    assert (
        "Nobody has tried"
        in html_of(AuditPage([], lambda: "").page, FakeCluster({"may see": None}), context="prod").text
    )
