"""The console in a real browser: what people see, press and must not be hurt by."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.browser.chromium import DESKTOP, PHONE, opened, overflow, violations
from tests.browser.conftest import HOSTILE, SECRET

PAGES_MAX = 80  # of a crawl
# Window, dark colors, and whether axe looks for faults: both in light and in dark once.
LOOKS = [
    pytest.param(DESKTOP, False, True, id="desktop-light"),
    pytest.param(DESKTOP, True, False, id="desktop-dark"),
    pytest.param(PHONE, False, False, id="phone-light"),
    pytest.param(PHONE, True, True, id="phone-dark"),
]


def links(page: Page) -> list[str]:
    """Return the addresses of the page's links to pages of the console."""
    found: list[str] = page.eval_on_selector_all("a[href]:not([download])", "all => all.map(each => each.href)")
    here = urlsplit(page.url).netloc
    return [link.partition("#")[0] for link in found if urlsplit(link).netloc == here and "format=json" not in link]


def kind_of(url: str) -> str:
    """Return what pages of the same kind have in common: one topic's page is like another's."""
    parts = urlsplit(url)
    path = re.sub(r"(topics|groups|members|dlq)/[^/]+", r"\1/*", parts.path)
    path = re.sub(r"messages/[^/]+/[^/]+", "messages/*/*", path)
    return f"{path}?{','.join(sorted(re.findall(r'([a-z]+)=', parts.query)))}"


@pytest.mark.parametrize(("viewport", "dark", "with_axe"), LOOKS)
def test_every_page_is_whole_in_every_look(
    browser: Browser, console: str, viewport: dict[str, int], dark: bool, with_axe: bool
) -> None:
    with opened(browser, viewport=viewport, dark=dark) as (page, watch):
        waiting = [console]
        seen: set[str] = set()
        while waiting and len(seen) < PAGES_MAX:
            url = waiting.pop(0)
            if kind_of(url) in seen:
                continue
            seen.add(kind_of(url))
            answer = page.goto(url)
            assert answer is not None and answer.status == 200, url
            assert page.locator("h1").count() == 1, url
            assert overflow(page) <= 0, url
            assert not with_axe or not violations(page), url
            assert not watch.problems, (url, watch.problems)
            waiting += links(page)
    assert len(seen) >= 15, seen
    for kind in ("messages/*/*?", "messages/*/*/trace?", "topics/*/tail?", "dlq/*?"):
        assert any(kind in each for each in seen), (kind, seen)


def test_keys_lead_to_pages_and_rows(browser: Browser, console: str) -> None:
    with opened(browser) as (page, _):
        page.goto(console)
        page.keyboard.press("g")
        page.keyboard.press("t")
        expect(page).to_have_url(re.compile("/topics$"))
        page.keyboard.press("/")
        expect(page.locator("input[type=search]")).to_be_focused()
        page.keyboard.type("gt")  # types, and goes nowhere
        expect(page.locator("input[type=search]")).to_have_value("gt")
        page.keyboard.press("Escape")
        expect(page.locator("input[type=search]")).not_to_be_focused()
        page.goto(f"{page.url}?q=topic-0")
        page.keyboard.press("j")
        page.keyboard.press("j")
        page.keyboard.press("k")
        page.keyboard.press("j")
        expect(page.get_by_role("link", name="topic-01")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.locator("h1")).to_have_text("Topic topic-01")
        page.keyboard.press("?")
        expect(page.locator("h1")).to_have_text("About")


def test_a_search_answers_while_one_types_and_stays_in_the_address(browser: Browser, console: str) -> None:
    with opened(browser) as (page, _):
        page.goto(f"{console}/at/default/topics")
        expect(page.locator("tbody tr")).to_have_count(50)
        page.evaluate("window.sameDocument = true")
        page.locator("input[type=search]").fill("topic-1")
        expect(page.locator("tbody tr")).to_have_count(10)
        page.locator("select[name=order]").select_option("down")
        expect(page.locator("tbody tr").first).to_contain_text("topic-19")
        assert page.evaluate("window.sameDocument") is True
        expect(page).to_have_url(re.compile(r"q=topic-1.*order=down"))
        page.reload()
        expect(page.locator("tbody tr")).to_have_count(10)
        page.get_by_role("link", name="topic-12").click()
        expect(page.locator("h1")).to_have_text("Topic topic-12")
        page.go_back()
        expect(page.locator("tbody tr")).to_have_count(10)


def test_a_part_that_is_not_ready_is_loaded_again_without_the_page(browser: Browser, console: str) -> None:
    with opened(browser) as (page, watch):
        overview = f"{console}/at/default/"

        def unready(route: Route) -> None:
            ready = route.fetch()
            text = re.sub('id="problems"[^>]*>', 'id="problems" data-refresh-s="0.1"><p>early</p>', ready.text())
            route.fulfill(response=ready, body=text)

        page.route(overview, unready, times=1)
        page.goto(overview)
        page.evaluate("window.sameDocument = true")
        expect(page.locator("#problems")).not_to_contain_text("early")
        assert page.evaluate("window.sameDocument") is True
        assert not watch.problems


def test_pages_work_without_scripts(browser: Browser, console: str) -> None:
    with opened(browser, scripts=False) as (page, _):
        page.goto(f"{console}/at/default/topics")
        page.locator("input[type=search]").fill("topic-1")
        page.get_by_role("button", name="Show").click()
        expect(page.locator("tbody tr")).to_have_count(10)
        page.get_by_role("link", name="Groups").click()
        page.get_by_role("link", name="billing").click()
        expect(page.locator("h1")).to_have_text("Group billing")


def test_times_are_of_the_persons_zone_with_utc_beside(browser: Browser, console: str) -> None:
    with opened(browser, timezone_id="Asia/Tokyo", locale="en-GB") as (page, _):
        page.goto(f"{console}/at/default/topics")
        shown = page.locator(".asof time")
        expect(shown).to_contain_text("GMT+9")
        expect(shown).to_contain_text(re.compile(r"\(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\)"))


def test_another_host_is_refused(browser: Browser, console: str) -> None:
    with opened(browser) as (page, watch):
        watch.expected_statuses.add(421)
        answer = page.goto(console.replace("127.0.0.1", "evil.example"))
        assert answer is not None and answer.status == 421
        watch.problems = [each for each in watch.problems if "untrustworthy" not in each]  # it came by plain HTTP


def test_no_frame_shows_the_console(browser: Browser, console: str) -> None:
    with opened(browser) as (page, watch):
        page.set_content(f'<iframe src="{console}/at/default/topics"></iframe>')
        expect(page.frame_locator("iframe").locator("h1")).not_to_have_text("Topics")  # but Chromium's own words
        assert any("frame-ancestors" in problem for problem in watch.problems)
        watch.problems.clear()


def test_markup_never_becomes_nodes_by_scripts(browser: Browser, console: str) -> None:
    with opened(browser) as (page, watch):
        page.goto(f"{console}/at/default/topics")
        refused = page.evaluate(
            """() => { try { document.body.innerHTML = "<b>x</b>"; return "" } catch (error) { return error.name } }"""
        )
        assert refused == "TypeError"
        watch.problems.clear()  # the policy reports it


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no-scripts"])
def test_hostile_texts_stay_texts(browser: Browser, console: str, scripts: bool) -> None:
    with opened(browser, scripts=scripts) as (page, watch):
        page.goto(f"{console}/at/default/messages?topic=hostile")
        found = [link for link in links(page) if "/messages/hostile/" in link]
        assert len(set(found)) == len(HOSTILE)
        places = [f"{link}{way}" for link in dict.fromkeys(found) for way in ("?as=text", "?as=hex", "/trace")]
        others = ["namesrv", "topics/hostile/tail", "brokers/broker-a/0?q=plainAclFile"]
        for url in [page.url, *(f"{console}/at/default/{path}" for path in others), *places]:
            page.goto(url, wait_until="domcontentloaded")
            assert page.locator("img, svg[onload], script:not([src]), textarea").count() == 0, url
            assert overflow(page) <= 0, url
            shown = page.content()
            assert not set(shown) & {"\x1b", "\u202e", "\u2066"}, url
            assert not watch.problems, (url, watch.problems)
            assert "?q=plain" not in url or "onerror=alert(5)" in (page.locator("main").text_content() or "")
            assert "/trace" not in url or page.locator("tbody tr").count() >= 4, "the records are shown"


def log_in(page: Page, secret: str) -> None:
    page.get_by_label("Access key").fill("admin")
    page.get_by_label("Secret").fill(secret)
    page.get_by_role("button", name="Log in").click()


def test_a_person_logs_in_and_out_and_another_stays_out(browser: Browser, secured: str) -> None:
    with opened(browser) as (page, watch), opened(browser) as (other, _):
        watch.expected_statuses.add(403)
        page.goto(f"{secured}/at/default/topics?kind=all")
        expect(page.locator("h1")).to_have_text("Log in to default")
        assert not violations(page)
        log_in(page, "wrong")
        expect(page.get_by_role("alert")).to_contain_text("are not right")
        log_in(page, SECRET)
        expect(page.locator("h1")).to_have_text("Topics")
        expect(page).to_have_url(re.compile("kind=all"))
        assert SECRET not in page.content()
        other.goto(f"{secured}/at/default/topics")
        expect(other.locator("h1")).to_have_text("Log in to default")
        page.get_by_role("link", name="Users").click()
        expect(page.locator("tbody th").first).to_have_text("admin")
        page.get_by_role("button", name="Log out").click()
        expect(page.locator("h1")).to_have_text("Log in to default")
        page.go_back()
        page.reload()
        expect(page.locator("h1")).to_have_text("Log in to default")
