"""Time lines: places of events, scales, limits."""

from __future__ import annotations

from typing import Any

from pymq.console.messages.timeline import EVENTS_MAX, LABEL_WIDTH, MARGIN, WIDTH, Timeline, span_text, timeline_of


def event(kind: str, time_ms: int, group: str = "", cost_ms: int | None = None, *, ok: bool = True) -> dict[str, Any]:
    return {
        "event": kind, "time_ms": time_ms, "group": group, "client": "10.0.0.7", "ok": ok, "detail": "",
        "cost_ms": cost_ms, "retry": None,
    }  # fmt: skip


def line(*events: dict[str, Any]) -> Timeline:
    found = timeline_of(events)
    assert found is not None
    return found


def test_events_are_bars_in_rows_by_what_they_are_and_by_group() -> None:
    found = line(
        event("produced", 1000, "app", 3),
        event("stored", 1002),
        event("delivered", 1010, "billing"),
        event("consumed", 1020, "billing", 10),
        event("delivered", 1015, "audit"),
        event("consumed", 1020, "audit", 5, ok=False),
    )
    assert [row.text for row in found.rows] == ["produced", "stored", "billing", "audit"]
    assert [mark.kind for mark in found.marks] == ["ok"] * 5 + ["failed"]
    produced, _, delivered, consumed = found.marks[:4]
    assert produced.x == LABEL_WIDTH and consumed.x == delivered.x, "a consumption begins at its end less its cost"
    assert consumed.x + consumed.width == WIDTH - MARGIN
    assert not found.is_log and found.ticks[0].text == "0" and found.ticks[-1].text == "20 ms"
    assert "took 10 ms" in consumed.text and "10.0.0.7" in consumed.text


def test_far_events_have_a_logarithmic_scale_so_that_near_ones_stay_apart() -> None:
    found = line(event("produced", 1000), event("stored", 1003), event("delivered", 1003 + 3_600_000, "late"))
    first, second, third = found.marks
    assert found.is_log and second.x - first.x > 20 and third.x + third.width >= WIDTH - MARGIN
    assert [tick.text for tick in found.ticks][:3] == ["0", "1 ms", "100 ms"]
    assert len(found.ticks) <= 7 and all(LABEL_WIDTH <= tick.x <= WIDTH for tick in found.ticks)


def test_one_event_and_events_at_one_time_have_a_line() -> None:
    assert len(line(event("stored", 1000)).marks) == 1
    assert line(event("stored", 1000), event("delivered", 1000, "a")).marks[1].x == LABEL_WIDTH


def test_events_without_a_time_are_not_on_it() -> None:
    assert timeline_of([]) is None and timeline_of([event("consumed", 0)]) is None
    assert len(line(event("consumed", 0), event("stored", 5)).marks) == 1


def test_a_long_trace_is_cut_and_says_so() -> None:
    found = line(*(event("delivered", 1000 + at, f"group-{'x' * 100}{at}") for at in range(EVENTS_MAX + 7)))
    assert len(found.marks) == EVENTS_MAX and found.left_out == 7
    assert all(len(row.text) <= 26 for row in found.rows)


def test_a_clock_that_is_off_does_not_break_the_line() -> None:
    found = line(event("produced", 1), event("stored", 10**15), event("consumed", 5, "a", 10**12))
    assert all(LABEL_WIDTH <= mark.x <= WIDTH and mark.width > 0 for mark in found.marks)


def test_spans_are_short() -> None:
    assert [span_text(ms) for ms in (0, 1, 999, 1500, 90_000, 3_600_000, 90_000_000)] == [
        "0", "1 ms", "999 ms", "1.5 s", "1.5 min", "1 h", "1.04 d",
    ]  # fmt: skip
