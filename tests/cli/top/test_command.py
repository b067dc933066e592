"""``pymq top``: rates of samples, lines for any width, keys, the screen, and plain blocks of a server."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

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
from pymq.model.message import MessageQueue
from pymq.model.route import BrokerData
from pymq.model.tables import TopicConfig
from pymq.operations.replica_view import BrokerView
from pymq.operations.top.rates import HISTORY_LENGTH, Rates, Row
from pymq.operations.top.sample import LISTED_EVERY_MS, BrokerSample, GroupSample, Sample, Sampler, TopicSample
from pymq.wire.bodies_admin import Connection, ConsumerConnections, TopicLag, TopicOffset
from pymq.wire.bodies_route import ClusterInfo
from tests.cli.conftest import Pymq
from tests.machine import NOWHERE

HOSTILE = "a\x1b[2Jb\nc"


def sample(at_ms: int, *, put: int = 0, end: int = 0, committed: int = 0, lag: int = 0, **names: str) -> Sample:
    """Return a sample of a master that takes ``put`` messages, a slave, one topic and one group."""
    topic, group = names.get("topic", "orders"), names.get("group", "billing")
    master = BrokerView("east", "broker-a", 0, "h:1", runtime={"brokerVersionDesc": "V5_3_3"})
    slave = BrokerView("east", "broker-a", 1, "h:2")
    return Sample(
        [
            BrokerSample(master, at_ms, put, 2 * put, 100 * put, 0.5),
            BrokerSample(slave, at_ms, 0, 0, 100 * put - 50, 0.5),
        ],
        {(topic, "broker-a"): TopicSample(at_ms, end, 7), ("TBW102", "broker-a"): TopicSample(at_ms, 0, 0)},
        {(group, topic, "broker-a"): GroupSample(at_ms, committed, lag, 90_000 if lag else 0)},
        {group: 2},
        frozenset({"TBW102"}),
    )


def rates(*samples: Sample) -> Rates:
    found = Rates()
    for one in samples:
        found.add(one)
    return found


def test_rates_are_differences_over_time() -> None:
    found = rates(sample(1000), sample(3000, put=500, end=400, committed=100, lag=300))
    totals = found.totals()
    assert (totals["clusters"], totals["in"], totals["out"], totals["silent"]) == (["east"], 250, 500, 0)
    master, slave = found.brokers()
    assert (master["in"], master["log_bytes"], master["disk"], master["lag"]) == (250, 25_000, 50, None)
    assert (slave["name"], slave["lag"], slave["in"]) == ("broker-a:1", 50, 0)
    (topic,) = found.topics()
    assert (topic["in"], topic["out"], topic["lag"], topic["groups"], topic["messages"]) == (200, 50, 300, 1, 7)
    (group,) = found.groups()
    assert (group["out"], group["lag"], group["behind_ms"], group["members"]) == (50, 300, 90_000, 2)
    assert {row["name"] for row in found.topics(everything=True)} == {"orders", "TBW102"}


def test_a_single_sample_has_no_rates() -> None:
    found = rates(sample(1000, put=500, end=400))
    assert [row["in"] for row in found.brokers()] == [None, None]
    assert found.topics()[0]["in"] is None
    assert found.topics()[0]["trend"] == []


def test_a_restarted_broker_counts_from_zero_and_a_group_moved_back_consumes_nothing() -> None:
    found = rates(sample(1000, put=500, committed=100), sample(2000, put=30, committed=40))
    assert found.brokers()[0]["in"] == 30
    assert found.groups()[0]["out"] == 0
    found.add(sample(3000, put=40, committed=50))
    assert (found.brokers()[0]["in"], found.groups()[0]["out"]) == (10, 10)


def test_trends_hold_the_newest_rates_and_end_with_their_topic() -> None:
    found = rates(*(sample(1000 * number, end=number * number) for number in range(HISTORY_LENGTH + 10)))
    trend = found.topics()[0]["trend"]
    assert len(trend) == HISTORY_LENGTH
    assert trend[-1] == 2 * (HISTORY_LENGTH + 9) - 1
    found.add(sample(10**6, topic="other"))
    assert [row["name"] for row in found.topics()] == ["other"]
    assert found.topics()[0]["trend"] == []


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


class Brokers:
    """The parts of an Admin that a sampler uses: one master with topics, and a slave that does not answer."""

    def __init__(self, topic_count: int = 3) -> None:
        self.asked: list[str] = []
        self.end = 0
        self.topic_count = topic_count
        self.cluster = SimpleNamespace(info=self._info)
        self.brokers = SimpleNamespace(runtime_info=self._runtime)
        self.topics = SimpleNamespace(configs=self._configs, system_names=self._system, stats=self._stats)
        self.group_names = ["TOOLS_CONSUMER", "g"]
        self.asked_groups: list[str] = []
        self.answer_ms = 0
        self.clock = ManualClock(1_000_000)
        self.groups = SimpleNamespace(
            connections=self._connections, configs=self._group_configs, topic_lags_at=self._lags
        )

    async def _info(self) -> ClusterInfo:
        data = BrokerData(cluster="east", broker_name="a", broker_addrs={0: "h:1", 1: "h:2"})
        return ClusterInfo(broker_addr_table={"a": data})

    async def _runtime(self, address: str) -> dict[str, str]:
        if address == "h:2":
            raise UnreachableError("no answer")
        return {"msgPutTotalTodayNow": str(self.end), "commitLogDiskRatio": "nonsense"}

    async def _group_configs(self, address: str) -> list[str]:
        return self.group_names

    async def _lags(self, address: str, group: str, *, with_times: bool) -> dict[str, TopicLag]:
        self.asked_groups.append(group)
        self.clock.advance(self.answer_ms)
        half = self.end // 2
        return {
            "t0": TopicLag(queues=2, lag=2 * (self.end - half), committed=2 * half, consumed_ms=1),
            "%RETRY%g": TopicLag(queues=1, committed=0),
        }

    async def _configs(self, address: str) -> dict[str, TopicConfig]:
        return {f"t{number}": TopicConfig(topic_name=f"t{number}") for number in range(self.topic_count)}

    async def _system(self) -> set[str]:
        raise UnreachableError("no answer")

    async def _stats(self, topic: str, targets: Any) -> dict[MessageQueue, TopicOffset]:
        self.asked.append(topic)
        return {MessageQueue(topic, "a", 0): TopicOffset(min_offset=0, max_offset=self.end)}

    async def _connections(self, address: str, group: str) -> ConsumerConnections:
        return ConsumerConnections(connection_set=[Connection(client_id="one"), Connection(client_id="two")])


def test_a_sample_adds_queues_up_and_keeps_what_a_silent_broker_does_not_answer() -> None:
    admin = Brokers()
    sampler = Sampler(admin, admin.clock)  # type: ignore[arg-type]
    admin.end = 100
    found = asyncio.run(sampler.sample())
    master, slave = found.brokers
    assert (master.put, master.got, master.disk, slave.error) == (100, None, None, "no answer")
    assert found.topics["t1", "a"] == TopicSample(0, 100, 100)
    assert found.groups == {("g", "t0", "a"): GroupSample(0, 100, 100, 999_999)}, "no system group, no unused retries"
    assert found.members == {"g": 2}


def test_a_broker_that_hangs_does_not_hold_the_others_up() -> None:
    admin = Brokers()

    async def hang(address: str) -> dict[str, str]:
        await asyncio.sleep(3600 if address == "h:2" else 0)
        return {"msgPutTotalTodayNow": "1"}

    admin.brokers.runtime_info = hang
    sampler = Sampler(admin, ManualClock(), answer_time_max_s=0.05)  # type: ignore[arg-type]
    found = asyncio.run(sampler.sample())
    assert [(one.put, one.error) for one in found.brokers] == [(1, ""), (None, "no answer within 0.05 s")]


def test_places_of_groups_take_turns_and_the_others_keep_theirs() -> None:
    """The first sample asks for all; later ones end after a time, and the next goes on there."""
    admin = Brokers()
    admin.group_names, admin.answer_ms, admin.end = [f"g{number}" for number in range(6)], 150, 100
    sampler = Sampler(admin, admin.clock)  # type: ignore[arg-type]
    first = asyncio.run(sampler.sample())
    assert (sorted({group for group, _, _ in first.groups}), admin.asked_groups) == (admin.group_names,) * 2
    admin.asked_groups, admin.end = [], 200
    second = asyncio.run(sampler.sample())
    assert admin.asked_groups == ["g0", "g1", "g2", "g3"], "two at once, until 400 ms are over"
    assert [at.committed for _, at in sorted(second.groups.items())] == [200] * 4 + [100] * 2
    admin.asked_groups = []
    asyncio.run(sampler.sample())
    assert admin.asked_groups == ["g4", "g5", "g0", "g1"]
    admin.group_names = ["g5"]
    admin.clock.advance(LISTED_EVERY_MS)
    assert {group for group, _, _ in asyncio.run(sampler.sample()).groups} == {"g5"}, "deleted groups are gone"


def test_requests_for_topics_are_bounded_and_take_turns() -> None:
    admin, clock = Brokers(topic_count=5), ManualClock()
    sampler = Sampler(admin, clock, requests_max=2)  # type: ignore[arg-type]
    sizes = []
    for _ in range(4):
        sizes.append(len(asyncio.run(sampler.sample()).topics))
        clock.advance(1000)
    assert admin.asked == ["t0", "t1", "t2", "t3", "t4", "t0", "t1", "t2"]
    assert sizes == [2, 4, 5, 5]


def test_the_live_view_shows_samples_until_a_key_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    keys: asyncio.Queue[str] = asyncio.Queue()
    admin = Brokers()

    class Ending(Sampler):
        taken = 0

        async def sample(self) -> Sample:
            self.taken += 1
            if self.taken == 2:
                raise UnreachableError("the name server is gone")
            if self.taken == 3:
                keys.put_nowait("q")
            return await super().sample()

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
