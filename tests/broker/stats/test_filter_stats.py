"""Reads through expressions, counted by topic and group."""

from __future__ import annotations

import pytest

from pymq.broker.stats import filter_stats
from pymq.broker.stats.filter_stats import FilterFigures
from pymq.store.read.reading import GetResult, GetStatus


def result(status: GetStatus, next_offset: int, *offsets: int) -> GetResult:
    found = GetResult(status, next_offset, 0, 100)
    found.count = len(offsets)
    return found


def test_counts_add_up() -> None:
    figures = FilterFigures()
    figures.add("t", "g", 10, result(GetStatus.FOUND, 30, 12, 20), 3, 5)
    figures.add("t", "g", 30, result(GetStatus.NO_MATCHED_MESSAGE, 40), 0, 7)
    figures.add("t", "h", 0, result(GetStatus.FOUND, 1, 0), 0, 0)
    assert figures.figures() == {
        "filter.t@g": "matched 2, skipped 25, errors 3, 12 ms",
        "filter.t@h": "matched 1, skipped 0, errors 0, 0 ms",
    }


@pytest.mark.parametrize("status", [GetStatus.OFFSET_OVERFLOW_BADLY, GetStatus.OFFSET_TOO_SMALL])
def test_an_offset_that_jumps_does_not_count_as_skipped(status: GetStatus) -> None:
    figures = FilterFigures()
    figures.add("t", "g", 10, result(status, 90), 0, 5)
    assert figures.figures() == {}


def test_deleted_topics_and_groups_are_forgotten() -> None:
    figures = FilterFigures()
    for topic, group in (("t", "g"), ("t", "h"), ("u", "g")):
        figures.add(topic, group, 0, result(GetStatus.FOUND, 1, 0), 0, 0)
    figures.forget(groups=["h"])
    figures.forget(topics=["u"])
    assert list(figures.counts) == [("t", "g")]


def test_counts_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filter_stats, "COUNTS_MAX", 2)
    figures = FilterFigures()
    for group in ("a", "b", "a", "c"):
        figures.add("t", group, 0, result(GetStatus.FOUND, 1, 0), 0, 0)
    assert list(figures.counts) == [("t", "b"), ("t", "c")]
