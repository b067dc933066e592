"""Rates, small lines and trends in the lists of topics and groups."""

from __future__ import annotations

from typing import Any

import pytest

from pymq.client.admin import BrokerTarget
from pymq.client.admin.rows import Rows
from pymq.console.asking.cluster import SLOW_MS
from pymq.console.history.rings import Kind, Measure, Subject
from pymq.console.history.sight import OLD_MS
from pymq.console.pages.group import _ABOUT
from pymq.model.tables import TopicConfig
from pymq.operations.top.broker_tables import Part
from pymq.operations.top.rates import Figures
from pymq.operations.topic.table import Ends, TopicTable
from pymq.wire.bodies_rows import GroupLag, TopicEnds
from tests.console.history.worlds import Site

TABLE = TopicTable(
    [(BrokerTarget("a", "east", "h:1"), {name: TopicConfig(topic_name=name) for name in ("orders", "idle", "secret")})],
    (),
)
ENDS = Ends({"a": {name: TopicEnds(stored=5) for name in ("orders", "idle")}})


def group_row(name: str) -> dict[str, Any]:
    row = {"group": name, "brokers": ["a"], "members": 1, "lag": None, "invisible": None, "retry_max": 16}
    return row | {"enabled": True, "ordered": False, "broadcast_allowed": True}


class Lists(Site):
    """A list of three topics and three groups; this person may not see the figures of the last ones."""

    def __init__(self, patch: pytest.MonkeyPatch, **options: Any) -> None:
        super().__init__(**options)

        async def topic_table(admin: Any) -> TopicTable:
            return TABLE

        async def ends(admin: Any) -> Ends:
            return ENDS

        async def ends_of(admin: Any, *parts: Any) -> Ends:
            return ENDS

        async def list_members(admin: Any, show_all: bool) -> list[dict[str, Any]]:
            return [group_row("billing"), group_row("audit"), group_row("secret")]

        async def all_lags() -> Rows[GroupLag]:
            return Rows({"billing": GroupLag(topics=1, lag=5), "audit": GroupLag(topics=1, lag=5)})

        patch.setattr("pymq.console.pages.topics.topic_table", topic_table)
        patch.setattr("pymq.console.pages.topics.ends_of_all", ends)
        patch.setattr("pymq.console.pages.topics.ends_of", ends_of)
        patch.setattr("pymq.console.pages.groups.list_members", list_members)
        self.admin.groups.all_lags = all_lags
        at_ms = self.clock.monotonic_ms()
        rates = {"orders": 812.0, "idle": 0.0, "secret": 99.0}
        self.recorder.topics = {name: Figures(rate, at_ms) for name, rate in rates.items()}
        self.recorder.groups = {
            name: {"out": rate, "at_ms": at_ms}
            for name, rate in (("billing", 20.0), ("audit", 700.0), ("secret", 99.0))
        }
        self.recorder.took_ms = {Part.ends: SLOW_MS, Part.lags: SLOW_MS}
        self.recorder.at_ms = {Part.ends: at_ms, Part.lags: at_ms}
        for name, rate in rates.items():
            self.put(Subject(Kind.topic, name), Measure.in_rate, *[rate] * 12)
        for name in ("billing", "secret"):
            self.put(Subject(Kind.group, name), Measure.lag, *[1000.0 * at for at in range(40)])
        self.clock.advance(8_000)


def test_topics_have_rates_and_small_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Lists(monkeypatch)
    text = site.get("topics").text
    assert "rates and lines as of 8 s ago" in text
    assert 'aria-label="last hour: 812 to 812 a second"' in text and text.count('class="spark"') == 2
    found = site.json("topics", "sort=in/s&order=down")
    assert [(row["topic"], row["in_per_second"]) for row in found["topics"]] == [
        ("orders", 812.0),
        ("idle", 0.0),
        ("secret", None),
    ]
    assert "99" not in text, "a rate of what this person may not see"


def test_groups_have_trends_and_what_they_consume(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Lists(monkeypatch)
    text = site.get("groups").text
    assert text.count("growing, 100 a second") == 1 and text.count('class="spark"') == 1
    assert "rates and lines as of 8 s ago" in text
    found = site.json("groups", "sort=consumed/s&order=down")
    rates = [(row["group"], row["out_per_second"]) for row in found["groups"]]
    assert rates == [("audit", 700.0), ("billing", 20.0), ("secret", None)]


def test_rates_that_are_old_are_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Lists(monkeypatch)
    site.clock.advance(OLD_MS)
    assert {row["in_per_second"] for row in site.json("topics", "sort=in/s")["topics"]} == {None}
    assert "as of 5 min 8 s ago" in site.get("topics").text


def test_lists_work_without_samples_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Lists(monkeypatch, has_samples=False)
    for path in ("topics", "groups"):
        text = site.get(path).text
        assert "rates are not known yet" in text and 'class="spark"' not in text
    assert site.get("topics", "sort=in/s").status == 200


def test_a_problem_of_the_samples_is_on_the_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Lists(monkeypatch)
    site.recorder.problem, site.recorder.advice = "the cluster refuses <b>", "Grant it."
    site.recorder.left_out = 12_000
    text = site.get("topics").text
    assert "the cluster refuses &lt;b&gt;. Grant it." in text
    assert "without 12,000 topics and groups for which there is no room" in text


def test_rows_that_are_shown_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Lists(monkeypatch)
    site.get("topics", "q=idle")
    assert list(site.rings)[-1] == Subject(Kind.topic, "idle")


def test_sampled_lags_are_shown_with_their_age_while_new_ones_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Lists(monkeypatch)
    came_ms = site.clock.monotonic_ms()
    sampled = Rows({"billing": GroupLag(topics=1, lag=99)})
    monkeypatch.setattr(site.recorder, "lags", lambda: (came_ms, sampled))
    site.clock.advance(50_000)
    assert "newer figures are on their way" in site.get("groups").text
    site = Lists(monkeypatch)
    monkeypatch.setattr(site.recorder, "lags", lambda: (came_ms, sampled))
    site.clock.advance(50_000)
    found = site.json("groups")
    assert {row["group"]: row["lag"] for row in found["groups"]} == {"audit": None, "billing": 99, "secret": None}
    assert found["asOfMs"] == site.clock.now_ms() - 50_000
    assert {row["lag"] for row in site.json("groups", "show=all")["groups"]} == {5, None}, "samples lack system groups"


def test_sampled_ends_sort_topics_with_their_age(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Lists(monkeypatch)
    came_ms = site.clock.monotonic_ms()
    sampled = {"a": {"idle": TopicEnds(stored=99), "orders": TopicEnds(stored=98)}}
    monkeypatch.setattr(site.recorder, "ends", lambda: (came_ms, sampled))
    site.clock.advance(50_000)
    found = site.json("topics", "sort=stored&order=down")
    assert [row["stored"] for row in found["topics"]] == [99, 98, None]
    assert found["asOfMs"] == site.clock.now_ms() - 50_000
    assert [row["stored"] for row in site.json("topics")["topics"]] == [5, 5, None], "asked for"


def test_a_groups_page_has_the_lag_of_its_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    site, watched = Lists(monkeypatch), list[tuple[str, str]]()
    figures = {"queues": 8, "lag": 9, "lag_ms": 5, "invisible": 0, "retry": 0, "unknown_queues": 0}
    about: dict[str, Any] = {
        "group": "billing",
        "progress": [{"topic": "orders"} | figures],
        "members": [],
        "subscriptions": [],
    }
    about |= dict.fromkeys(column.key for column in _ABOUT) | {
        "brokers": ["a"],
        "differing_subscriptions": [],
        "lag": 9,
    }

    async def group_record(*parts: Any) -> dict[str, Any]:
        return about

    async def topic_lags(group: str) -> dict[str, Any]:
        return {}

    async def rows(*parts: Any) -> list[dict[str, Any]]:
        return []

    site.admin.groups.topic_lags = topic_lags
    monkeypatch.setattr("pymq.console.pages.group.group_record", group_record)
    monkeypatch.setattr("pymq.console.pages.group.lag_of_group", rows)
    monkeypatch.setattr(site.recorder, "watch", lambda *pair: watched.append(pair))
    site.put(Subject(Kind.pair, "billing", "orders"), Measure.lag, *[41.0] * 12)
    found = site.json("groups/billing")
    assert found["lastHourOfTopic"]["lag"][-1] == 41 and watched == [("billing", "orders")]
    assert "Last hour of orders" in site.get("groups/billing").text
    other = site.json("groups/billing", "topic=other")
    assert "first figures" in other["lastHourOfTopic"]["note"]
    assert watched[-1] == ("billing", "other")
    hostile = site.get("groups/billing", "topic=%3Cb%3E%22").text
    assert "Last hour of &lt;b&gt;" in hostile and "<b>&#34;" not in hostile
