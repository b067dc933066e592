"""Changes in a real browser: a form, its plan, the change, and the way back."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.chromium import PHONE, opened, overflow, violations

FORMS = [
    "auth/anna/rule?resource=Topic:orders",
    "auth/anna/update",
    "brokers/broker-a/0/drain",
    "brokers/broker-a/0/settings?key=maxTopics",
    "groups/billing/reset",
    "groups/billing/update",
    "namesrv/values",
    "new/group",
    "new/topic",
    "new/user",
    "raft/broker-a/members",
    "topics/orders/delete",
    "topics/orders/shrink",
    "topics/orders/shrink?to=1",
]


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no-scripts"])
def test_a_topic_is_made_and_deleted(browser: Browser, changing: str, scripts: bool) -> None:
    name = f"made-{'with' if scripts else 'without'}-scripts"
    with opened(browser, scripts=scripts) as (page, watch):
        watch.expected_statuses |= {400, 404}
        page.goto(f"{changing}/at/default/topics")
        expect(page.locator(".mark")).to_have_count(0)
        page.get_by_role("link", name="New topic").click()
        page.get_by_label("Topic").fill(name)
        page.get_by_role("button", name="Show the plan").click()
        expect(page.locator("main")).to_contain_text("Nothing is changed yet.")
        page.get_by_role("button", name="Change it").click()
        expect(page.get_by_role("status")).to_have_text("Done.")
        page.reload()
        expect(page.get_by_role("status")).to_have_text("Done.")
        page.goto(f"{changing}/at/default/topics/{name}")
        page.get_by_role("link", name="Delete it").click()
        page.get_by_role("button", name="Show the plan").click()
        page.get_by_label(f"Type {name}").fill("another")
        page.get_by_role("button", name="Change it").click()
        expect(page.get_by_role("alert")).to_contain_text(f"type {name} to confirm")
        page.get_by_label(f"Type {name}").fill(name)
        page.get_by_role("button", name="Change it").click()
        expect(page.get_by_role("status")).to_have_text("Done.")
        page.goto(f"{changing}/at/default/audit")
        expect(page.locator("tbody tr").first).to_contain_text(re.compile(f"topic delete.*{name}", re.DOTALL))


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_forms_and_plans_are_whole(browser: Browser, changing: str, dark: bool) -> None:
    with opened(browser, viewport=PHONE, dark=dark) as (page, _):
        for path in FORMS:
            page.goto(f"{changing}/at/default/{path}")
            assert overflow(page) <= 0 and not violations(page), path
        page.goto(f"{changing}/at/default/groups/billing/reset")
        page.get_by_label("Where").fill("start")
        page.get_by_role("button", name="Show the plan").click()
        expect(page.locator("main")).to_contain_text("read again")
        assert overflow(page) <= 0 and not violations(page)


def test_another_site_changes_nothing(browser: Browser, changing: str) -> None:
    with opened(browser) as (page, watch):
        watch.expected_statuses |= {403, 404}  # a page of text has no icon
        page.set_content(
            f'<form method="post" action="{changing}/at/default/new/topic"><input name="topic" value="evil"></form>'
        )
        page.locator("form").evaluate("form => form.submit()")
        expect(page.locator("body")).to_contain_text("A change came from")
        page.goto(f"{changing}/at/default/topics?q=evil")
        expect(page.locator("tbody tr")).to_have_count(0)
