"""``pymq stats``: windows of RocketMQ's statistics, summed over brokers, by topic, group and broker."""

from __future__ import annotations

from pymq.errors import EXIT_NOT_FOUND, EXIT_OK, EXIT_UNREACHABLE, EXIT_USAGE
from pymq.operations.stats import Windows, windows
from pymq.wire.bodies_admin import StatsData, StatsWindow
from tests.cli.conftest import Pymq
from tests.machine import NOWHERE


def test_a_longer_window_counts_at_least_what_a_shorter_one_does() -> None:
    def data(minute: int, hour: int, day: int) -> StatsData:
        return StatsData(
            stats_minute=StatsWindow(sum=minute, tps=1.5),
            stats_hour=StatsWindow(sum=hour),
            stats_day=StatsWindow(sum=day),
        )

    assert windows(data(1, 2, 3)) == Windows(1.5, 1, 2, 3)
    assert windows(data(5, 0, 0)) == Windows(1.5, 5, 5, 5), "RocketMQ's are 0 until their second sample"
    assert windows(None) == Windows()
    assert windows(data(1, 2, 3)) + windows(data(5, 0, 0)) == Windows(3.0, 6, 7, 8)


def test_what_topics_took_and_groups_got(pymq: Pymq) -> None:
    pymq("send", "took-and-got", stdin="one\ntwo\nthree\n")
    assert (
        pymq("tail", "took-and-got", "--group", "counting", "--create-group", "--commit", "--from", "start", "-F").code
        == EXIT_OK
    )
    pymq("send", "took-and-got", "four")
    records = pymq("stats", "took-and-got", "-o", "json").json()
    assert [(record["group"], record["direction"], record["lag"]) for record in records] == [
        (None, "in", None),
        ("counting", "out", 1),
    ]
    assert [record[name] for record in records for name in ("minute", "hour", "day")] == [4, 4, 4, 3, 3, 3]
    everything = pymq("stats")
    assert everything.code == EXIT_OK
    assert "\ntook-and-got " in everything.out
    assert "TBW102" not in everything.out


def test_what_brokers_took_in_and_gave_out(pymq: Pymq) -> None:
    pymq("send", "took-and-gave", "one")
    took, gave = pymq("stats", "--broker", "broker-a", "-o", "json").json()
    assert (took["broker"], took["direction"], gave["direction"]) == ("broker-a", "in", "out")
    assert took["day"] >= took["hour"] >= took["minute"] >= 1
    assert took["today"] >= 1
    assert took["yesterday"] is not None
    assert "TODAY" in pymq("stats", "--brokers").out


def test_unknown_names_and_both_kinds_at_once_are_refused(pymq: Pymq) -> None:
    assert pymq("stats", "no-such-topic").code == EXIT_NOT_FOUND
    assert pymq("stats", "--broker", "nope").code == EXIT_NOT_FOUND
    assert pymq("stats", "orders", "--brokers").code == EXIT_USAGE
    assert pymq("stats", "--namesrv", NOWHERE).code == EXIT_UNREACHABLE
