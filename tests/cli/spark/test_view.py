"""The bar of an export and the live view of one that follows: what they show at 80 columns, with a clock by hand."""

from __future__ import annotations

import io
import sys

import pytest

from pymq.cli.spark.view import Bar, FollowView, Rate, clock_text, export_progress


class Seconds:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_the_bar_has_rate_and_time_left() -> None:
    clock = Seconds()
    bar = Bar(clock)
    assert bar.lines() == ["planning     0:00"]
    bar.phase("exporting")
    bar.rows(0, 1_000_000)
    assert bar.lines() == ["exporting    [                    ] 0/1,000,000 0:00"]
    clock.now += 2
    bar.rows(250_000, 1_000_000)
    assert bar.lines() == ["exporting    [=====               ] 250,000/1,000,000 0:02 125,000/s 0:06 left"]
    assert len(bar.lines()[0]) <= 80


def test_a_rate_is_of_the_last_ten_seconds() -> None:
    clock = Seconds()
    rate = Rate(clock)
    assert rate.per_s == 0
    for _ in range(31):
        rate.note(round(clock.now - 1000) * 100)
        clock.now += 1
    assert rate.per_s == pytest.approx(90, abs=10)
    clock.now += 20
    assert rate.per_s == 0


def test_the_live_view_shows_rate_lag_by_topic_and_batch_times() -> None:
    clock = Seconds()
    view = FollowView(clock)
    assert view.lines() == ["planning | 0 rows | 0/s | 0:00"]
    view.topics({"orders": 12_345, "a\tb": 7, "x" * 100: 3}, {"orders": 50})
    view.phase("exporting")
    view.rows(0, 12_355)
    clock.now += 4
    view.rows(8_000, 12_355)
    view.batch(8_000, 3.25)
    clock.now += 3600
    view.batch(20, 0.25)
    lines = view.lines()
    assert lines[0] == "exporting | 8,000 rows | 0/s | 1:00:04"
    assert lines[1].split() == ["topic", "behind", "exported"]
    assert lines[2].split() == ["orders", "12,345", "50"]
    assert lines[3].split() == ["a\\tb", "7", "0"]
    assert lines[4].startswith("x" * 39 + "… ")
    assert lines[5] == "batches: 2, the last 20 rows in 0.2 s; mean 1.8 s, longest 3.2 s"
    assert max(len(line) for line in lines) <= 80


def test_many_topics_are_cut_and_counted() -> None:
    view = FollowView(Seconds())
    view.topics({f"t{n:02d}": n for n in range(25)}, {})
    lines = view.lines()
    assert lines[2].split()[0] == "t24" and lines[-1] == f"… 15 more topics, {sum(range(15))} behind"


@pytest.mark.parametrize("seconds", [(0, "0:00"), (59.6, "1:00"), (3599, "59:59"), (86_400, "24:00:00")])
def test_durations(seconds: tuple[float, str]) -> None:
    assert clock_text(seconds[0]) == seconds[1]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("term", ["xterm", "dumb", None])
def test_only_a_terminal_that_can_draw_shows_it(monkeypatch: pytest.MonkeyPatch, term: str | None) -> None:
    stream = Terminal() if term else io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", term or "xterm")
    with export_progress(follows=True) as progress:
        progress.phase("waiting for messages")
        progress.rows(5, 10)
        progress.topics({"t": 5}, {"t": 5})
        progress.batch(5, 1.0)
    assert ("waiting for messages | 5 rows" in stream.getvalue()) == (term == "xterm")
    with export_progress(follows=False) as progress:
        progress.kept(7, "out")
        progress.trying_again("no broker answers")
    assert "7 rows of this run are committed in out" in stream.getvalue()
    assert "pymq: trying again: no broker answers\n" in stream.getvalue()
