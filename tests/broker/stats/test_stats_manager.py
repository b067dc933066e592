"""StatsManager: sums, rates over windows, the turn of a day, what is kept after a deletion."""

from __future__ import annotations

from operator import attrgetter

import pytest

from pymq.broker.stats import stats_manager as stats_module
from pymq.broker.stats.stats_manager import Meter, StatsManager
from pymq.clock import ManualClock
from pymq.config import load_broker_config


def make() -> tuple[StatsManager, ManualClock]:
    clock = ManualClock()
    return StatsManager(clock=clock, config=load_broker_config()), clock


def run(stats: StatsManager, clock: ManualClock, seconds: int, per_second: int) -> None:
    for _ in range(seconds):
        stats.message_put("T", per_second, per_second * 100)
        clock.advance(1000)
        stats.tick()


def test_a_window_counts_from_the_first_message_on() -> None:
    stats, clock = make()
    stats.message_put("T", 3, 300)
    stats.message_put("T", 1, 100)
    clock.advance(2000)
    window = stats.view("TOPIC_PUT_NUMS", "T")
    assert window is not None
    minute, hour, day = window
    assert minute == hour == day
    assert (minute.total, minute.per_second, minute.per_call) == (4, 2.0, 2.0)
    size = stats.view("TOPIC_PUT_SIZE", "T")
    assert size is not None and size[0].total == 400


def test_the_minute_forgets_and_the_hour_remembers() -> None:
    stats, clock = make()
    run(stats, clock, 30, 10)
    run(stats, clock, 120, 0)
    window = stats.view("TOPIC_PUT_NUMS", "T")
    assert window is not None
    assert window[0].total == 0 and window[1].total == 300


@pytest.mark.parametrize(
    ("name", "key", "total"),
    [
        ("TOPIC_PUT_NUMS", "T", 5),
        ("GROUP_GET_NUMS", "T@g", 2),
        ("GROUP_GET_SIZE", "T@g", 20),
        ("SNDBCK_PUT_NUMS", "T@g", 1),
        ("BROKER_PUT_NUMS", "DefaultCluster", 5),
        ("BROKER_GET_NUMS", "DefaultCluster", 2),
    ],
)
def test_statistics_go_by_rocketmq_s_names(name: str, key: str, total: int) -> None:
    stats, clock = make()
    stats.tick()
    stats.message_put("T", 5, 50)
    stats.messages_got("g", "T", 2, 20)
    stats.message_sent_back("T", "g")
    clock.advance(1000)
    window = stats.view(name, key)
    assert window is not None and window[0].total == total


def test_unknown_statistics_are_none() -> None:
    stats, _ = make()
    assert stats.view("TOPIC_PUT_NUMS", "none") is None
    assert stats.view("NOPE", "T") is None
    assert stats.view("BROKER_PUT_NUMS", "OtherCluster") is None


def test_rates_over_ten_seconds_a_minute_and_ten() -> None:
    stats, clock = make()
    run(stats, clock, 50, 0)
    run(stats, clock, 10, 60)
    ten_seconds, minute, ten_minutes = stats.rates(attrgetter("put"), stats.totals())
    assert ten_seconds == pytest.approx(60, rel=0.15)
    assert minute == pytest.approx(10, rel=0.15)
    assert ten_minutes == pytest.approx(10, rel=0.15)
    assert stats.put_per_second("T") > 0 and stats.put_per_second("none") == 0.0


def test_a_deleted_topic_leaves_the_totals_as_they_were() -> None:
    stats, _ = make()
    stats.message_put("T", 5, 50)
    stats.messages_got("g", "T", 2, 20)
    stats.messages_got("h", "T", 1, 10)
    before = stats.totals()
    stats.forget_topic("T")
    stats.forget_group("h")
    assert stats.totals() == before
    assert stats.view("TOPIC_PUT_NUMS", "T") is None


def test_the_turn_of_a_day_moves_the_totals() -> None:
    stats, clock = make()
    stats.message_put("T", 5, 50)
    clock.advance(24 * 3_600_000)
    stats.tick()
    assert (stats.put_yesterday_morning, stats.put_today_morning) == (0, 5)
    stats.message_put("T", 1, 10)
    clock.advance(24 * 3_600_000)
    stats.tick()
    assert (stats.put_yesterday_morning, stats.put_today_morning) == (5, 6)


def test_many_meters_are_sampled_in_several_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats_module, "METERS_A_TICK", 2)
    stats, clock = make()
    sampled: list[int] = []
    monkeypatch.setattr(Meter, "sample", lambda meter, at_ms: sampled.append(at_ms))
    stats.tick()
    for number in range(3):
        stats.put_meter(f"T{number}")
    sampled.clear()
    counts = []
    for _ in range(13):
        clock.advance(1000)
        stats.tick()
        counts.append(len(sampled))
    assert counts == [0] * 9 + [2, 4, 5, 5]


def test_the_meters_of_pairs_are_bounded_and_the_totals_keep_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats_module, "PAIR_METERS_MAX", 3)
    stats, _ = make()
    for number in range(4):
        stats.messages_got(f"g{number}", "T", 1, 10)
        stats.message_sent_back("T", f"g{number}")
        stats.message_dead("T", f"g{number}")
    expected = [("T", "g1"), ("T", "g2"), ("T", "g3")]
    assert list(stats.group_get) == list(stats.send_back) == list(stats.dead_letters) == expected
    stats.messages_got("g0", "T", 1, 10)
    assert list(stats.group_get) == [("T", "g2"), ("T", "g3"), ("T", "g0")]
    assert stats.totals().got == stats.totals().got_calls == 5


def test_the_broker_s_windows_count_from_its_start_on() -> None:
    stats, clock = make()
    clock.advance(500)
    stats.message_put("T", 3, 300)
    clock.advance(500)
    window = stats.view("BROKER_PUT_NUMS", load_broker_config().broker_cluster_name)
    assert window is not None
    assert (window[0].total, window[0].per_second, window[2].total) == (3, 3.0, 3)
