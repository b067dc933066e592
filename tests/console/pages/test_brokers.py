"""The list of brokers: a silent one stays, with the reason."""

from __future__ import annotations

import re

from pymq.console.pages.brokers import brokers
from tests.console.pages.records import SILENT, broker
from tests.console.pages.visits import FakeCluster, html_of, page_of

TWO = ([broker(), broker("broker-b", **SILENT)], {"broker-b:0": "10.0.0.3:10911 timed out"})


def test_a_silent_broker_is_named_and_its_figures_are_unknown() -> None:
    page = page_of(brokers, FakeCluster({"brokers": TWO}))
    assert page.missing == {"broker-b:0": "10.0.0.3:10911 timed out"}
    assert page.data["brokers"] == TWO[0]
    html = html_of(brokers, FakeCluster({"brokers": TWO})).text
    assert "no answer: 10.0.0.3:10911 timed out" in html
    assert 'href="/at/prod/brokers/broker-a/0"' in html
    assert "812.0" in html and "1 of 1 in sync" in html
    figures = re.findall(r'class="n">([^<]*)</td>', html[html.index("broker-b</a>") :])
    assert figures == ["0", "\u2013", "\u2013", "\u2013"]  # its id is the only number that is known


def test_a_slave_says_how_far_behind_it_is() -> None:
    html = html_of(brokers, FakeCluster({"brokers": ([broker(), broker("broker-a", 1)], {})})).text
    assert "2.0 KiB behind, in sync" in html


def test_problems_of_a_broker_stand_below_it() -> None:
    html = html_of(brokers, FakeCluster({"brokers": ([broker(problems=["its disk is full"])], {})})).text
    assert "broker-a: its disk is full" in html


def test_without_brokers_the_page_says_how_one_starts() -> None:
    assert "pymq broker" in html_of(brokers, FakeCluster({"brokers": ([], {})})).text


def test_pages_share_the_question() -> None:
    cluster = FakeCluster({"brokers": TWO})
    page_of(brokers, cluster)
    assert cluster.asked == ["brokers"]
