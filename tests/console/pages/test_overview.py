"""The overview: problems, charts, counts, the largest lags and the busiest topics."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pymq.console.history.checkup import Findings
from pymq.console.history.rings import CLUSTER, Kind, Measure, Subject
from pymq.console.pages.overview import DEAD_LETTER_GROUPS_MAX, FINDINGS_MAX, REFRESH_S, ROWS_MAX
from pymq.errors import RefusedError, UnreachableError
from pymq.operations.doctor.finding import Finding, note, problem, warning
from pymq.operations.top.rates import Figures
from tests.console.history.worlds import Site

REFUSAL = RefusedError(16, "User:reader has no permission to access Cluster:*")


class Overview(Site):
    """A cluster of two brokers, of which one is silent, with samples."""

    def __init__(self, patch: pytest.MonkeyPatch, **options: Any) -> None:
        super().__init__(**options)

        async def list_brokers(admin: Any, cluster: str | None) -> Any:
            return [{"broker": "a"}, {"broker": "b"}], {"b:0": "no answer"}

        patch.setattr("pymq.console.pages.overview.list_brokers", list_brokers)
        self.found: list[tuple[str, Finding]] = [
            ("masters", problem("broker-b", "has <no> master", "pymq broker promote broker-b")),
            ("stuck", problem("billing", "is stuck", "look at its members")),
            ("stuck", problem("secret", "is stuck", "look at its members")),
            ("disk", warning("broker-a", "its disk is 91 % full", "make room")),
            ("replication", note("broker-a", "has no slave")),
        ]
        self.set_findings()
        self.admin.topics.names, self.admin.topics.system_names = self._names, self._system_names
        self.admin.groups.all_configs = self._all_configs

    async def _names(self) -> list[str]:
        return ["orders", "%RETRY%billing", "TBW102"]

    async def _system_names(self) -> set[str]:
        return {"TBW102"}

    async def _all_configs(self) -> dict[str, Any]:
        raise REFUSAL

    def set_findings(self) -> None:
        self.checkup.findings = Findings(self.found, self.clock.monotonic_ms())

    def sample(self) -> None:
        at_ms = self.clock.monotonic_ms()
        topics = {f"t{rate}": Figures(float(rate), at_ms, 10) for rate in range(8)}
        topics |= {"%DLQ%billing": Figures(0.0, at_ms, 12), "%DLQ%secret": Figures(0.0, at_ms, 99)}
        topics |= {"%RETRY%billing": Figures(5.0, at_ms, 3), "secret": Figures(70.0, at_ms, 3)}
        self.recorder.topics = topics | {"TBW102": Figures(9.0, at_ms, 1)}
        self.recorder.system_topics = frozenset({"TBW102"})
        lags = {"billing": 12_000, "audit": 0, "secret": 9, "TOOLS_CONSUMER": 5, "none": None}
        self.recorder.groups = {
            name: {"name": name, "lag": lag, "behind_ms": 198_000, "at_ms": at_ms} for name, lag in lags.items()
        }
        self.put(CLUSTER, Measure.in_rate, *[812.0] * 60)
        self.put(CLUSTER, Measure.lag, *[100.0] * 60)
        self.put(Subject(Kind.group, "billing"), Measure.lag, *[1200.0 * at for at in range(60)])
        self.put(Subject(Kind.topic, "t7"), Measure.in_rate, *[7.0] * 60)
        for name in ("secret", "%DLQ%secret"):
            self.admin.errors[name] = REFUSAL


def test_it_shows_the_whole_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Overview(monkeypatch)
    site.sample()
    site.clock.advance(9_000)
    found = site.json("")
    counts = ("brokers", "brokers_up", "topics", "groups", "groups_behind", "dead_letters", "dead_letter_groups")
    assert [found[key] for key in counts] == [2, 1, 9, 4, 2, 12, 1]
    assert found["missing"] == {"b:0": "no answer"}
    assert found["worst_lag"] == [
        {"group": "billing", "lag": 12_000, "waits_ms": 198_000, "trend": "growing, 120 a second"}
    ]
    assert [row["topic"] for row in found["busiest_topics"]] == ["t7", "t6", "t5", "t4", "t3"]
    assert len(found["busiest_topics"]) == ROWS_MAX
    assert found["lastHour"]["in"][-1] == 812.0
    assert [(one["check"], one["subject"]) for one in found["problems"]] == [
        ("masters", "broker-b"),
        ("stuck", "billing"),
        ("disk", "broker-a"),
    ]
    text = site.get("").text
    assert "<h1>Overview</h1>" in text and "has &lt;no&gt; master" in text and "found 9 s ago" in text
    assert "1 of 2</a> answered" in text and "2 behind" in text and "12 in 1 group<" in text
    assert 'href="/at/prod/groups/billing"' in text and 'href="/at/prod/topics/t7"' in text
    assert text.count('class="chart"') == 2 and "growing, 120 a second" in text
    assert "secret" not in text, "this person may not see it"
    assert len(text) < 30_000


def test_without_samples_it_counts_what_it_asks_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Overview(monkeypatch)

    found = site.json("")
    assert (found["topics"], found["groups"], found["groups_behind"], found["dead_letters"]) == (1, None, None, None)
    text = site.get("").text
    assert "there are no samples yet" in text and "first figures come within a minute" in text
    assert 'title="not sampled yet, or you may not see it">&ndash;' in text


def test_a_person_without_the_right_sees_no_sample_and_no_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Overview(monkeypatch)
    site.sample()
    site.admin.errors["h:1"] = REFUSAL
    answer = site.get("")
    assert answer.status == 200
    for hidden in ("812", "12,000", "has &lt;no&gt; master", "t7"):
        assert hidden not in answer.text
    assert "has no permission to access Cluster:*" in answer.text


def test_who_is_nobody_has_to_log_in(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Overview(monkeypatch)
    site.admin.errors["h:1"] = RefusedError(16, "username cannot be null.")
    assert site.get("").header("location") == "/at/prod/login?next=%2Fat%2Fprod%2F"


def test_a_cluster_that_does_not_answer_shows_no_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who may see what is not known then."""
    site = Overview(monkeypatch)
    site.sample()
    site.admin.errors = dict.fromkeys(("h:1", "h:2"), UnreachableError("h:1 can't be reached"))
    text = site.get("").text
    assert "812" not in text and "h:1 can&#39;t be reached" in text


def test_all_is_well(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Overview(monkeypatch)
    site.found = [("replication", note("broker-a", "has no slave"))]
    site.set_findings()
    assert "No problems." in site.get("").text


def test_more_findings_than_fit_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Overview(monkeypatch)
    site.found = [("disk", warning(f"broker-{number}", "is full", "")) for number in range(FINDINGS_MAX + 3)]
    site.set_findings()
    assert "3 more are on the page of the doctor" in site.get("").text
    assert len(site.json("")["problems"]) == FINDINGS_MAX


def test_checks_that_did_not_run_do_not_look_like_no_problems(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Overview(monkeypatch)
    site.checkup.findings = None
    site.recorder.problem, site.recorder.advice = "the cluster refuses the console's own requests", "Grant it."
    text = site.get("").text
    assert "The checks did not run: the cluster refuses" in text and "No problems" not in text
    assert not site.examined
    site.recorder.problem = ""
    site.checkup.problem = "no name server answers"
    text = site.get("").text
    assert "no name server answers" in text and "No problems" not in text and "data-refresh-s" not in text


def test_the_first_page_does_not_wait_for_the_checks_and_loads_their_part_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site = Overview(monkeypatch)
    site.checkup.findings = None

    async def never() -> Any:
        await asyncio.Event().wait()

    monkeypatch.setattr(site.checkup, "_examine", never)
    text = site.get("").text
    assert "The checks are running." in text and "No problems" not in text
    assert f'id="problems" aria-label="Problems" data-refresh-s="{REFRESH_S}"' in text and "Look again</a>" in text
    site.set_findings()
    assert "data-refresh-s" not in site.get("").text


def test_old_findings_say_why_there_are_no_new_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Overview(monkeypatch)
    site.checkup.problem = "the checks did not end within 30 s"
    text = site.get("").text
    assert "could not run again: the checks did not end within 30 s" in text and "has &lt;no&gt; master" in text


def test_dead_letters_that_are_not_counted_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Overview(monkeypatch)
    at_ms = site.clock.monotonic_ms()
    full = {f"%DLQ%g{number}": Figures(0.0, at_ms, 2) for number in range(DEAD_LETTER_GROUPS_MAX)}
    site.recorder.topics = dict(full)
    assert "<dd>40 in 20 groups" in site.get("").text
    site.recorder.topics = full | {"%DLQ%more": Figures(0.0, at_ms, 1)}
    assert "at least 40 in 20 groups" in site.get("").text
    assert site.json("")["dead_letters_cut"] is True


def test_hostile_names_stay_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Overview(monkeypatch)
    site.sample()
    name = "<img src=x onerror=alert(1)>\u202e"
    site.recorder.topics = {name: Figures(999.0, site.clock.monotonic_ms(), 1)}
    site.put(Subject(Kind.topic, name), Measure.in_rate, 1.0)
    text = site.get("").text
    assert "<img" not in text and "\u202e" not in text and "&lt;img" in text


def test_it_is_asked_for_by_many_at_the_cost_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Overview(monkeypatch)
    site.sample()
    site.get("")
    asked = list(site.admin.asked)
    for _ in range(5):
        site.get("")
    assert site.admin.asked == asked
