"""The page of the doctor: findings with their values and next steps, and what was not checked."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pymq.console.pages import doctor as module
from pymq.console.pages.doctor import AGAIN_MS, FINDINGS_OF_PAGE, REPORT_KEPT_MS
from pymq.errors import RefusedError, UnreachableError
from pymq.operations.doctor.finding import Check, note, problem, unknown, warning
from pymq.operations.doctor.state import Broker, NameServer
from pymq.operations.replica_view import BrokerView
from tests.console.history.worlds import Site

CHECKS = (
    Check(
        "masters", "Is there a master?", lambda state: [problem("b", "has <2>", "choose one", masters=["h:1", "h:2"])]
    ),
    Check("disk", "Is there room?", lambda state: [warning("a", "is 91 % full", "make room", ratio=0.91)]),
    Check("slaves", "Are there slaves?", lambda state: [note("a", "has no slave"), unknown("c", "is not known")]),
    Check("ports", "Are ports open?", lambda state: []),
    Check("broken", "Does it break?", lambda state: [note("x", str(1 // 0))]),
)


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setattr(module, "_every_check", lambda: CHECKS)
    found = Site()
    found.state.name_servers = [NameServer("n:1")]
    found.state.brokers = [Broker(BrokerView("east", "b", 0, "h:2", error="no <answer>"))]
    return found


def test_findings_have_all_that_the_command_prints(site: Site) -> None:
    found = site.json("doctor")
    assert found["worst"] == "problem" and found["name_servers"] == ["n:1"]
    assert [(one["severity"], one["check"]) for one in found["findings"]] == [
        ("problem", "masters"),
        ("warning", "disk"),
        ("note", "slaves"),
        ("unknown", "slaves"),
        ("unknown", "broken"),
    ]
    assert found["findings"][0]["values"] == {"masters": ["h:1", "h:2"]}
    assert [(one["name"], one["findings"], one["checked"]) for one in found["checks"]] == [
        ("masters", 1, True),
        ("disk", 1, True),
        ("slaves", 2, True),
        ("ports", 0, True),
        ("broken", 1, True),
    ]
    assert found["missing"] == {"b": "no <answer>"}
    assert site.examined == [0]


def test_the_page_has_questions_values_and_next_steps(site: Site) -> None:
    text = site.get("doctor").text
    assert "1 problem, 1 warning, 1 note, 2 not known" in text
    assert "has &lt;2&gt;" in text and "Next: choose one" in text and "<dd>h:1, h:2</dd>" in text and "0.91" in text
    assert text.count("Are ports open?") == 1 and ">fine</td>" in text and "2 found</td>" in text
    assert "the check failed: ZeroDivisionError" in text
    assert "pymq doctor --observe 0" in text and 'href="/at/prod/doctor?observe=0">Run again' in text


def test_long_lists_of_values_are_cut(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"t{number}" for number in range(1012)]
    many = Check("many", "?", lambda state: [note("a", "is odd", topics=names, selections={"*": 2, "<a>": 1})])
    monkeypatch.setattr(module, "_every_check", lambda: (many,))
    text = site.get("doctor").text
    assert "t8, t9 and 1,002 more" in text and "t10" not in text and "*: 2, &lt;a&gt;: 1" in text
    assert site.json("doctor")["findings"][0]["values"]["topics"] == names


def test_groups_are_watched_when_asked(site: Site) -> None:
    site.get("doctor", "observe=6")
    assert site.examined == [6000]
    for wrong in ("observe=7", "observe=-1", "observe=x", "observe=1&observe=2"):
        assert site.get("doctor", wrong).status == 400
    assert site.examined == [6000]


def test_without_findings_it_says_so(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_every_check", lambda: CHECKS[3:4])
    assert "Nothing is wrong." in site.get("doctor").text


def test_a_cluster_that_does_not_answer_is_examined_and_not_called_fine(site: Site) -> None:
    site.admin.errors = dict.fromkeys(("h:1", "h:2"), UnreachableError("no answer"))
    site.state.name_servers = [NameServer("n:1", error="no answer")]
    answer = site.get("doctor")
    assert answer.status == 200
    assert "not checked</td>" in answer.text and ">fine</td>" not in answer.text


def test_checks_that_take_too_long_are_no_result(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DEADLINE_S", 0.01)

    async def examine(observe_ms: int) -> Any:
        await asyncio.Event().wait()

    monkeypatch.setattr(site, "examine", examine)
    text = site.get("doctor").text
    assert "did not end within 0.01 s, so nothing is known" in text and "Nothing is wrong" not in text
    assert text.count("not checked</td>") == len(CHECKS)
    assert not any(check["checked"] for check in site.json("doctor")["checks"])


def test_findings_come_in_pages_and_are_searched(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    count = FINDINGS_OF_PAGE + 5
    many = Check("many", "?", lambda state: [note(f"t{number}", "is odd") for number in range(count)])
    monkeypatch.setattr(module, "_every_check", lambda: (many,))
    text = site.get("doctor").text
    assert f"1 to {FINDINGS_OF_PAGE} of {count}" in text and f"{count} notes" in text and "page 1 of 2" in text
    first, second = site.json("doctor"), site.json("doctor", "page=2")
    assert (len(first["findings"]), first["total"], first["page"], first["pages"]) == (FINDINGS_OF_PAGE, count, 1, 2)
    assert [one["subject"] for one in second["findings"]] == [f"t{FINDINGS_OF_PAGE + at}" for at in range(5)]
    assert [one["subject"] for one in site.json("doctor", "q=t29")["findings"]] == ["t29"]
    assert "No finding is about this." in site.get("doctor", "q=t77").text


def test_a_person_without_the_right_gets_the_refusal(site: Site) -> None:
    site.admin.errors["h:1"] = RefusedError(16, "User:reader has no permission to access Cluster:*")
    assert site.get("doctor").status == 403
    site.clock.advance(60_000)
    site.admin.errors["h:1"] = RefusedError(16, "username cannot be null.")
    assert site.get("doctor").status == 303
    assert not site.examined


def test_a_report_is_shown_for_a_minute_unless_it_is_asked_for(site: Site) -> None:
    site.get("doctor")
    site.clock.advance(REPORT_KEPT_MS - 1)
    site.get("doctor")
    assert site.examined == [0]
    site.get("doctor", "observe=0")
    assert site.examined == [0, 0], "run again"
    site.clock.advance(AGAIN_MS - 1)
    site.get("doctor", "observe=0")
    assert site.examined == [0, 0]
    site.clock.advance(REPORT_KEPT_MS - AGAIN_MS)
    site.get("doctor")
    assert site.examined == [0, 0], "the newest report counts"
    site.clock.advance(1)
    site.get("doctor")
    assert site.examined == [0, 0, 0]
