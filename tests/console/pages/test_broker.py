"""One broker: figures, copies and settings; a silent one has none of them."""

from __future__ import annotations

from typing import Any

import pytest

from pymq.console.history.rings import Kind, Measure, Subject
from pymq.console.pages.broker import broker as page
from pymq.errors import NotFoundError, RefusedError
from tests.console.history.worlds import Site
from tests.console.pages.records import SILENT, broker, settings
from tests.console.pages.visits import FakeCluster, html_of, page_of

MANY = settings("flushDiskType", "fileReservedTime", *(f"key{number}" for number in range(60)))


def cluster(found: object = MANY) -> FakeCluster:
    return FakeCluster({"brokers": ([broker(), broker("broker-a", 1)], {}), "settings": found})


def test_a_broker_has_its_figures_and_the_first_settings() -> None:
    found = page_of(page, cluster(), broker="broker-a", id="0")
    assert found.title == "Broker broker-a:0"
    assert found.command == ("config", "show", "--origin", "-b", "broker-a:0")
    assert len(found.data["settings"]) == 50
    html = html_of(page, cluster(), broker="broker-a", id="0").text
    assert "what fileReservedTime means" in html and "1 to 50 of 62" in html and "Slaves in sync" in html


def test_settings_are_searched_and_paged() -> None:
    found = page_of(page, cluster(), "q=FLUSH", broker="broker-a", id="0")
    assert [row["key"] for row in found.data["settings"]] == ["flushDiskType"]
    assert found.command == ("config", "show", "FLUSH", "--origin", "-b", "broker-a:0")
    assert len(page_of(page, cluster(), "page=2", broker="broker-a", id="0").data["settings"]) == 12


def test_only_changed_settings_are_asked_for() -> None:
    asked = cluster(settings())
    found = page_of(page, asked, "changed=on", broker="broker-a", id="0")
    assert found.command == ("config", "show", "--origin", "--changed", "-b", "broker-a:0")
    assert asked.asked[1][2] is True  # type: ignore[index]
    assert "No value differs from its default." in html_of(page, asked, "changed=on", broker="broker-a", id="0").text


def test_a_slave_shows_how_far_behind_it_is() -> None:
    html = html_of(page, cluster(), broker="broker-a", id="1").text
    assert "Behind its master" in html and "2.0 KiB" in html and "Slaves in sync" not in html


def test_a_silent_broker_is_asked_for_nothing_more() -> None:
    silent = FakeCluster({"brokers": ([broker(**SILENT)], {"broker-a:0": "timed out"})})
    found = page_of(page, silent, broker="broker-a", id="0")
    assert found.missing == {"broker-a:0": "timed out"} and silent.asked == ["brokers"]
    html = html_of(page, silent, broker="broker-a", id="0").text
    assert 'title="it does not answer"' in html and 'id="results"' not in html


def test_settings_that_may_not_be_seen_are_missing_with_the_reason() -> None:
    refused = RefusedError(16, "User:reader has no permission to access Cluster:*")
    found = page_of(page, cluster(refused), broker="broker-a", id="0")
    assert "no permission" in found.missing["settings"] and found.data["settings"] == []
    assert found.data["broker"]["broker"] == "broker-a"


def test_settings_for_which_a_broker_asks_who_this_is_lead_to_the_log_in() -> None:
    unproven = cluster(RefusedError(16, "username cannot be null."))
    assert html_of(page, unproven, broker="broker-a", id="0").status == 303


def test_an_unknown_broker_is_not_there() -> None:
    with pytest.raises(NotFoundError, match="no broker broker-c:7"):
        page_of(page, cluster(), broker="broker-c", id="7")


def test_a_broker_has_charts_of_the_last_hour_that_outlast_its_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site()

    async def all_brokers(asked: Any) -> Any:
        return [broker(**SILENT)], {"broker-a:0": "timed out"}

    monkeypatch.setattr("pymq.console.pages.broker.all_brokers", all_brokers)
    address = broker()["address"]
    site.put(Subject(Kind.broker, address), Measure.in_rate, *[812.0] * 12)
    assert "Messages in <b>812</b> a second" in site.get("brokers/broker-a/0").text
    assert site.json("brokers/broker-a/0")["lastHour"]["in"][-1] == 812.0
    site.admin.errors["h:1"] = RefusedError(16, "User:reader has no permission to access Cluster:*")
    site.clock.advance(60_000)
    assert "812" not in site.get("brokers/broker-a/0").text
