"""How often a cluster is asked."""

from __future__ import annotations

from pymq.console.history.pace import EARLY_MS, SHARE_MAX, Pace


def test_a_question_is_due_at_once_and_then_after_its_interval() -> None:
    pace = Pace(30_000)
    assert pace.is_due(0)
    pace.note(0, 100)
    assert not pace.is_due(30_000 - EARLY_MS - 1)
    assert pace.is_due(30_000 - EARLY_MS)


def test_answers_that_take_long_are_asked_for_less_often() -> None:
    pace = Pace(30_000)
    pace.note(0, 3_000)
    assert pace.interval_ms == 240_000 == round(3_000 / SHARE_MAX)
    pace.note(240_000, 240_100)
    assert pace.interval_ms == 30_000, "and as often as before, when they come sooner"


def test_an_answer_that_comes_in_parts_is_asked_for_more_often() -> None:
    pace = Pace(60_000)
    pace.note(0, 100, rounds=6)
    assert pace.interval_ms == 10_000
    pace.note(0, 400, rounds=6)
    assert pace.interval_ms == 32_000


def test_a_question_can_be_put_off() -> None:
    pace = Pace(10_000)
    pace.put_off(60_000)
    assert not pace.is_due(59_000)
    assert pace.is_due(60_000)
