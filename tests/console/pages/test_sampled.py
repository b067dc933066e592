"""Rates, small lines and trends in the lists of topics and groups."""

from __future__ import annotations

from typing import Any

import pytest

from pymq.console.history.rings import Kind, Measure, Subject
from pymq.console.history.sight import OLD_MS
from pymq.operations.top.broker_tables import Part
from pymq.operations.top.rates import Figures
from pymq.operations.topic.table import TopicTable
from tests.console.history.worlds import Site


def topic_row(name: str, stored: int | None = 5) -> dict[str, Any]:
    queues = {"read_queues": 4, "write_queues": 4, "perm": "RW"}
    return {
        "topic": name,
        "kind": "application",
        "type": "",
        "brokers": ["a"],
        "queues": [{"broker": "a"} | queues],
        "stored": stored,
        "last_ms": None,
    } | queues


def group_row(name: str, lag: int | None = 5) -> dict[str, Any]:
    row = {"group": name, "brokers": ["a"], "members": 1, "lag": lag, "invisible": 0, "retry_max": 16}
    return row | {"enabled": True, "ordered": False, "broadcast_allowed": True}


class Lists(Site):
    """A list of three topics and three groups; this person may not see the figures of the last ones."""

    def __init__(self, patch: pytest.MonkeyPatch, **options: Any) -> None:
        super().__init__(**options)

        async def topic_table(admin: Any) -> TopicTable:
            return TopicTable([topic_row("orders"), topic_row("idle"), topic_row("secret", None)], {})

        async def list_groups(admin: Any, show_all: bool) -> list[dict[str, Any]]:
            return [group_row("billing"), group_row("audit"), group_row("secret", None)]

        patch.setattr("pymq.console.pages.topics.topic_table", topic_table)
        patch.setattr("pymq.console.pages.groups.list_groups", list_groups)
        at_ms = self.clock.monotonic_ms()
        rates = {"orders": 812.0, "idle": 0.0, "secret": 99.0}
        self.recorder.topics = {name: Figures(rate, at_ms) for name, rate in rates.items()}
        self.recorder.groups = {
            name: {"out": rate, "at_ms": at_ms}
            for name, rate in (("billing", 20.0), ("audit", 700.0), ("secret", 99.0))
        }
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
