"""``pymq top``: lines for any width, keys, the screen, and plain blocks of a server."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

import pytest
from rich.console import Console

from pymq.cli.top import live
from pymq.cli.top.keys import split_keys
from pymq.cli.top.live import Screen, watch
from pymq.cli.top.screen import (
    ASCII_SPARKS,
    Choice,
    View,
    chosen_rows,
    short_bytes,
    short_number,
    short_time,
    sort_keys,
    spark_line,
    table,
)
from pymq.clock import ManualClock
from pymq.errors import EXIT_OK, EXIT_UNREACHABLE, EXIT_USAGE, UnreachableError
from pymq.operations.replica_view import BrokerView
from pymq.operations.top.broker_tables import EVERY_PART, Part
from pymq.operations.top.rates import Rates, Row
from pymq.operations.top.sample import BrokerSample, Sample, Sampler, TopicSample
from tests.cli.conftest import Pymq
from tests.machine import NOWHERE
from tests.operations.top.sampled import Brokers, rates, sample

HOSTILE = "a\x1b[2Jb\nc"


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0, "0"), (9.46, "9.5"), (9999, "9999"), (12_345, "12.3k"), (4.5e6, "4.5M"), (10**12, "1.0T")],
)
def test_numbers_are_short(value: float | None, text: str) -> None:
    assert short_number(value) == text
    assert len(text) <= 6


def test_bytes_and_times_are_short() -> None:
    assert [short_bytes(size) for size in (None, 1023, 1536, 5 << 40)] == ["-", "1023B", "1.5K", "5.0T"]
    assert [short_time(ms) for ms in (None, 0, 1500, 90_000, 7_200_000, 3 * 86_400_000)] == [
        *("-", "-", "2s", "2m", "2h", "3d")
    ]


def test_spark_lines_go_from_zero_to_the_largest() -> None:
    assert spark_line([0, 1, 2, 4, 7], 10) == "▁▂▃▅█"
    assert spark_line([1, 2, 3], 2, ASCII_SPARKS) == "+#"
    assert spark_line([0, 0], 5) == "▁▁"
    assert spark_line([], 5) == ""


@pytest.mark.parametrize("view", list(View))
@pytest.mark.parametrize("width", [20, 40, 80, 160])
def test_lines_fit_any_width_and_keep_the_name(view: View, width: int) -> None:
    found = rates(*(sample(1000 * number, put=10**7 * number, end=10**9 * number, lag=10**9) for number in range(90)))
    rows = {View.cluster: found.brokers, View.topics: found.topics, View.groups: found.groups}[view]()
    heading, *lines = (line.text for line in table(rows, Choice(view), width))
    assert max(map(len, [heading, *lines])) <= width
    assert all(row["name"] in line for row, line in zip(rows, lines, strict=True))
    if width >= 80:
        assert "TREND" in heading
        assert "OUT/S" in heading


def test_long_names_and_control_characters_stay_on_their_line() -> None:
    found = rates(sample(1000, topic=HOSTILE), sample(2000, topic=HOSTILE))
    text = table(found.topics(), Choice(View.topics), 80)[1].text
    assert text.startswith("a\\x1b[2Jb\\nc")
    assert text.isprintable()
    long = rates(sample(1000, topic="t" * 127))
    assert "…" in table(long.topics(), Choice(View.topics), 80)[1].text
    silent = Rates()
    silent.add(Sample([BrokerSample(BrokerView("east", "b", 0, "h:1"), 1, error="no answer")]))
    line = table(silent.brokers(), Choice(), 80)[1]
    assert (line.style, "no answer" in line.text) == ("error", True)
    assert silent.totals()["silent"] == 1


def rows(*pairs: tuple[str, float | None]) -> list[Row]:
    return [{"name": name, "lag": lag, "role": "slave", "members": 1} for name, lag in pairs]


def test_rows_are_found_and_sorted() -> None:
    some = rows(("b", 1), ("a", 5), ("c", None))
    choice = Choice(View.groups)
    assert choice.sort_key == "lag"
    assert [row["name"] for row in chosen_rows(some, choice)] == ["a", "b", "c"]
    choice.is_reversed = True
    assert [row["name"] for row in chosen_rows(some, choice)] == ["c", "b", "a"]
    assert [row["name"] for row in chosen_rows(some, Choice(View.cluster))] == ["a", "b", "c"]
    assert [row["name"] for row in chosen_rows(some, Choice(View.groups, contains="B"))] == ["b"]
    assert Choice(View.topics, sort="members").sort_key == "in", "topics have no members"
    assert table([], Choice(contains="x"), 80)[0].text == "  no name has 'x'"


def test_key_sequences_are_split() -> None:
    assert list(split_keys("q\x1b[A\x1b[6~\x1bOB\x1b[1;5C\t\r\x7f\x1b/é")) == [
        *("q", "up", "page down", "down", "tab", "enter", "backspace", "escape", "/", "é")
    ]


def screen() -> Screen:
    return Screen(Choice(), 2.0, lambda: "12:00:00")


def press(one: Screen, *keys: str) -> Screen:
    for key in keys:
        one.press(key)
    return one


def test_keys_change_what_the_screen_shows() -> None:
    one = press(screen(), "2", "s")
    assert (one.choice.view, one.choice.sort_key) == (View.topics, sort_keys(View.topics)[2])
    press(one, "S", "tab", "r", "a", "p", "+")
    assert (one.choice.view, one.choice.sort_key) == (View.groups, "lag")
    assert (one.choice.is_reversed, one.choice.everything, one.is_paused, one.interval_s) == (True, True, True, 5.0)
    press(one, "left", "left", "-", "-", "-", "-", "-", "-", "/", "x", "q", "backspace", "enter")
    assert (one.choice.view, one.interval_s, one.choice.contains, one.is_done) == (View.cluster, 0.5, "x", False)
    assert press(one, "/", "escape").choice.contains == ""
    assert press(one, "q").is_done


def test_the_screen_fills_its_height_and_scrolls() -> None:
    one = press(screen(), "2")
    several = sample(2000)
    several.topics = {(f"topic-{number:03}", "broker-a"): TopicSample(1, 0, 0) for number in range(50)}
    one.rates.add(several)
    lines = [line.text for line in one.lines(80, 24)]
    assert len(lines) == 24
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith("pymq top - east: 2 brokers, in -/s") and lines[0].endswith("12:00:00")
    assert lines[-1].startswith("1 2 3 view")
    assert "topic-000" in lines[3]
    press(one, "page down", "down")
    assert "topic-021" in one.lines(80, 24)[3].text
    press(one, *["page down"] * 9)
    assert "topic-049" in one.lines(80, 24)[-2].text, "it stops at the last row"
    one.error = "no answer"
    assert one.lines(80, 24)[0].style == "error"


def test_the_live_view_shows_samples_until_a_key_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    keys: asyncio.Queue[str] = asyncio.Queue()
    admin = Brokers()

    class Ending(Sampler):
        taken = 0

        async def sample(self, parts: Collection[Part] = EVERY_PART, by_topic: Sequence[str] = ()) -> Sample:
            self.taken += 1
            if self.taken == 2:
                raise UnreachableError("the name server is gone")
            if self.taken == 3:
                keys.put_nowait("q")
            return await super().sample(parts)

    @contextmanager
    def of_test() -> Iterator[asyncio.Queue[str]]:
        yield keys

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(live, "keys_of_terminal", of_test)
    output = io.StringIO()
    console = Console(file=output, force_terminal=True, width=80, height=24, legacy_windows=False)
    one = Screen(Choice(), 0.01, lambda: "12:00:00")
    asyncio.run(watch(Ending(admin, ManualClock()), one, console))  # type: ignore[arg-type]
    text = output.getvalue()
    assert "pymq top - east: 2 brokers (1 silent)" in text
    assert "the name server is gone" in text, "it goes on, and shows why there is nothing new"
    assert "\x1b[?1049h" in text and "\x1b[?1049l" in text, "the terminal's own screen comes back"


def test_plain_blocks_of_a_server(pymq: Pymq, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    pymq("send", "topped", "one")
    done = pymq("top", "--batch", "2", "-d", "0.1", "--find", "topped")
    assert (done.code, done.err) == (EXIT_OK, "")
    assert done.out.count("\ntopics\n") == 2
    assert "\ntopped " in done.out
    assert "\x1b" not in done.out
    lines = pymq("top", "--once", "-d", "0.1", "-o", "json").out.splitlines()
    record = json.loads(lines[0])
    assert [row["name"] for row in record["cluster"]] == ["broker-a"]
    assert record["cluster"][0]["in"] is not None
    assert {"time", "totals", "topics", "groups"} < record.keys()


def test_wrong_arguments_and_a_missing_name_server_end_it(pymq: Pymq) -> None:
    assert "there are cluster, topics, groups" in pymq("top", "--view", "all").err
    wrong = pymq("top", "--view", "groups", "--sort", "disk")
    assert (wrong.code, "no column 'disk' to sort by" in wrong.err) == (EXIT_USAGE, True)
    assert pymq("top", "--once", "--namesrv", NOWHERE).code == EXIT_UNREACHABLE
