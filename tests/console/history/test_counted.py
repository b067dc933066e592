"""What brokers counted themselves before the console's figures: who is asked, once, and what a count may be."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any, TypeVar

import msgspec
import pytest

from pymq.clock import ManualClock
from pymq.console.history import counted
from pymq.console.history.counted import AGAIN_MS, SPAN_MAX_MS, SPAN_MIN_MS, SUBJECTS_MAX, HourCounts, Mean, Means
from pymq.console.history.rings import CLUSTER, Kind, Measure, Subject
from pymq.errors import UnreachableError
from pymq.operations.replica_view import BrokerView
from pymq.operations.top.sample import BrokerSample, Sample, TopicSample
from pymq.wire.bodies_admin import StatsData, StatsWindow

T = TypeVar("T")
TOPIC, BROKER = Subject(Kind.topic, "orders"), Subject(Kind.broker, "h:2")
HOUR_MS = 3_600_000


class World:
    """A master with a slave, and a master of another cluster; both masters have the topic."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.counts = HourCounts(self.clock)
        self.asked: list[tuple[str, str, str]] = []
        self.hours: dict[str, StatsWindow] = {}  # by the statistic's name, or address and name
        self.error: Exception | None = None
        self.waits = False
        self.admin: Any = SimpleNamespace(brokers=SimpleNamespace(stats=self._stats))
        views = [("east", "a", 0, "h:1"), ("east", "a", 1, "h:2"), ("west", "b", 0, "h:3")]
        self.sample = Sample([BrokerSample(BrokerView(*view), 0) for view in views])
        self.sample.topics |= {("orders", name): TopicSample(0, 5, 5) for name in ("a", "b")}

    async def _stats(self, address: str, name: str, key: str) -> StatsData | None:
        self.asked.append((address, name, key))
        if self.waits:
            await asyncio.Event().wait()
        if self.error is not None:
            raise self.error
        found = self.hours.get(f"{address} {name}", self.hours.get(name))
        return None if found is None else StatsData(stats_hour=found)

    def ask(self, subject: Subject) -> Means:
        return run(self.counts.ask(self.admin, self.sample, subject))


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def test_a_topics_counts_of_all_its_masters_are_added() -> None:
    world = World()
    world.hours = {
        "h:1 TOPIC_PUT_NUMS": StatsWindow(sum=3600, tps=1.0),
        "h:3 TOPIC_PUT_NUMS": StatsWindow(sum=3600, tps=2.0),
    }
    assert world.ask(TOPIC) == {Measure.in_rate: Mean(3.0, HOUR_MS)}
    assert world.asked == [("h:1", "TOPIC_PUT_NUMS", "orders"), ("h:3", "TOPIC_PUT_NUMS", "orders")]


def test_a_broker_is_asked_for_what_it_took_and_gave() -> None:
    world = World()
    world.hours = {"BROKER_GET_NUMS": StatsWindow(sum=60, tps=0.1)}
    assert world.ask(BROKER) == {Measure.out_rate: Mean(0.1, 600_000)}
    assert world.asked == [("h:2", "BROKER_PUT_NUMS", "east"), ("h:2", "BROKER_GET_NUMS", "east")]


def test_slaves_give_messages_and_take_none() -> None:
    world = World()
    world.hours = {name: StatsWindow(sum=3600, tps=1.0) for name in ("BROKER_PUT_NUMS", "BROKER_GET_NUMS")}
    found = world.ask(CLUSTER)
    assert found == {Measure.in_rate: Mean(2.0, HOUR_MS), Measure.out_rate: Mean(3.0, HOUR_MS)}


def test_the_sum_of_some_brokers_is_not_the_sum() -> None:
    world = World()
    world.hours = {"BROKER_PUT_NUMS": StatsWindow(sum=3600, tps=1.0)}
    world.sample.brokers[2] = world.sample.brokers[2]._replace(error="no answer")
    assert not world.ask(CLUSTER) and not world.ask(TOPIC) and not world.asked
    assert world.ask(BROKER)


@pytest.mark.parametrize("subject", [Subject(Kind.group, "g"), Subject(Kind.pair, "g", "orders"), Subject(Kind.topic)])
def test_what_no_broker_counts_is_not_asked(subject: Subject) -> None:
    world = World()
    assert not world.ask(subject) and not world.asked


def test_a_subject_is_asked_for_once_and_its_mean_ages() -> None:
    world = World()
    world.hours = {"TOPIC_PUT_NUMS": StatsWindow(sum=3600, tps=1.0)}
    world.ask(TOPIC)
    world.clock.advance(HOUR_MS)
    assert world.ask(TOPIC)[Measure.in_rate].age_ms == HOUR_MS and len(world.asked) == 2


def test_nothing_counted_is_an_answer_and_a_failure_is_asked_again_later() -> None:
    world = World()
    assert not world.ask(TOPIC) and not world.ask(TOPIC) and len(world.asked) == 2
    world.error = UnreachableError("no answer")
    assert not world.ask(BROKER)
    world.error, world.hours = None, {"BROKER_PUT_NUMS": StatsWindow(sum=3600, tps=1.0)}
    world.clock.advance(AGAIN_MS - 1)
    assert not world.ask(BROKER)
    world.clock.advance(1)
    assert world.ask(BROKER)


def test_a_page_does_not_wait_long_and_the_next_one_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counted, "WAIT_S", 0.01)
    world = World()
    world.waits = True
    assert not world.ask(TOPIC) and not world.ask(TOPIC) and len(world.asked) == 2


@pytest.mark.parametrize(
    ("sum_", "tps"),
    [(-5, 1.0), (5, -1.0), (5, 0.0), (2**63, 1.0), (5, float("inf")), (5, float("nan")), (2**2000, 1.0)],
)
def test_a_count_that_can_not_be_is_left_out(sum_: int, tps: float) -> None:
    world = World()
    world.hours = {"TOPIC_PUT_NUMS": StatsWindow(sum=sum_, tps=tps)}
    assert not world.ask(TOPIC)


@pytest.mark.parametrize("tps", [1e308, 5e-324])
def test_no_rate_breaks_a_sum(tps: float) -> None:
    world = World()
    world.hours = {"TOPIC_PUT_NUMS": StatsWindow(sum=1, tps=tps)}
    assert all(mean.span_ms <= SPAN_MAX_MS for mean in world.ask(TOPIC).values())


@pytest.mark.parametrize(("count", "is_shown"), [(59, False), (60, True)])
def test_a_mean_of_less_than_a_minute_says_nothing(count: int, is_shown: bool) -> None:
    assert SPAN_MIN_MS == 60_000
    world = World()
    world.hours = {"TOPIC_PUT_NUMS": StatsWindow(sum=count, tps=1.0)}
    assert bool(world.ask(TOPIC)) is is_shown


def test_the_subjects_that_are_kept_are_few() -> None:
    world = World()
    world.sample.topics |= {(f"t{at}", "a"): TopicSample(0, 5, 5) for at in range(SUBJECTS_MAX)}
    names = ["orders", *(f"t{at}" for at in range(SUBJECTS_MAX))]

    async def ask_all() -> None:
        for name in names:
            await world.counts.ask(world.admin, world.sample, Subject(Kind.topic, name))

    run(ask_all())
    asked = len(world.asked)
    world.ask(Subject(Kind.topic, names[1]))
    assert len(world.asked) == asked, "the newest ones are kept"
    world.ask(TOPIC)
    assert len(world.asked) == asked + 2


def test_an_answer_of_rocketmq_is_understood() -> None:
    """Of Apache's brokers the hour stays 0 for their first ten minutes: then there is no mean."""
    text = b'{"statsMinute":{"avgpt":0.0,"sum":7,"tps":0.1},"statsHour":{"avgpt":0.0,"sum":0,"tps":0.0}}'
    world = World()
    world.hours = {"TOPIC_PUT_NUMS": msgspec.json.decode(text, type=StatsData).stats_hour}
    assert not world.ask(TOPIC)
