"""Samples of a cluster come into rings, with a clock that the test moves."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from math import isnan
from typing import Any

import pytest

from pymq.client.admin.rows import Rows
from pymq.console.history.pairs import WORST_PAIRS_MAX
from pymq.console.history.recorder import ENDS_MS, LAGS_MS, REFUSED_AGAIN_MS, REST_MIN_MS, ROUND_MS, Recorder
from pymq.console.history.rings import CLUSTER, Kind, Measure, Rings, Subject, point_at
from pymq.errors import RefusedError, UnreachableError
from pymq.operations.top.broker_tables import Part
from pymq.wire.bodies_rows import GroupLag, TopicEnds, TopicReaders
from tests.operations.top.sampled import Brokers

TOPIC, GROUP, BROKER = Subject(Kind.topic, "t0"), Subject(Kind.group, "g"), Subject(Kind.broker, "h:1")
REFUSAL = RefusedError(16, "User:console has no permission to access Cluster:*")


class Cluster(Brokers):
    """A master that takes 50 messages a second, with a group that reads a part of them, and no slave."""

    def __init__(self) -> None:
        super().__init__()
        self.opened = self.closed = 0
        self.runtime_error: Exception | None = None
        self.runtime_extra: dict[str, str] = {}
        self.runtime_requests = 0
        self.brokers.runtime_info = self._totals
        self.rates = 50
        self.committed = 0

    async def __aenter__(self) -> Cluster:
        self.opened += 1
        return self

    async def close(self) -> None:
        self.closed += 1

    async def _totals(self, address: str) -> dict[str, str]:
        self.runtime_requests += 1
        if self.runtime_error is not None:
            raise self.runtime_error
        total = str(self.end)
        return {"msgPutTotalTodayNow": total, "msgGetTotalTodayNow": total, **self.runtime_extra}

    def pass_time(self, seconds: int = 10) -> None:
        self.clock.advance(seconds * 1000)
        self.end += self.rates * seconds
        self.committed += 20 * seconds
        self.give_rows(lag=self.end - self.committed, committed=self.committed)


class World:
    """A recorder and its cluster."""

    def __init__(self, series_max: int = 100, **options: Any) -> None:
        self.admin = Cluster()
        self.admin.give_rows()
        self.rings = Rings(series_max)
        make: Any = lambda: self.admin  # noqa: E731
        self.recorder = Recorder(make, self.admin.clock, self.rings, **options)

    def round(self, count: int = 1) -> None:
        """Sample, so often, each ten seconds."""

        async def rounds() -> None:
            for _ in range(count):
                await self.recorder.round()
                self.admin.pass_time()

        asyncio.run(rounds())

    def points(self, subject: Subject, measure: Measure) -> list[float]:
        """Return the known points."""
        found = self.rings.points(subject, measure, point_at(self.admin.clock.monotonic_ms())) or []
        return [value for value in found if not isnan(value)]


@pytest.fixture(autouse=True)
def one_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the slave out, which never answers."""
    from pymq.operations.replica_view import BrokerView

    async def brokers(admin: Any) -> list[BrokerView]:
        return [BrokerView("east", "a", 0, "h:1")]

    monkeypatch.setattr("pymq.operations.top.sample.brokers", brokers)


def test_rates_and_lags_become_points() -> None:
    world = World()
    world.round(14)
    assert world.points(CLUSTER, Measure.in_rate) == [50] * 13
    assert world.points(BROKER, Measure.out_rate) == [50] * 13
    assert not world.points(BROKER, Measure.disk), "the broker does not say it"
    assert world.points(TOPIC, Measure.in_rate)[-7:] == [50] * 7
    assert world.points(GROUP, Measure.out_rate) == [20] * 7
    assert world.points(TOPIC, Measure.out_rate) == [20] * 7
    lags = world.points(GROUP, Measure.lag)
    assert lags == [300, *[2100] * 6, *[3900] * 6] and lags == world.points(CLUSTER, Measure.lag)
    assert world.recorder.topics["t0"].per_second == 50 and world.recorder.groups["g"]["lag"] == 3900
    assert world.recorder.at_ms == {Part.ends: 120_000, Part.lags: 130_000}
    assert not world.recorder.problem


def test_each_part_is_asked_in_its_turn_and_a_round_asks_for_one() -> None:
    world = World()
    rounds = []
    for _ in range(12):
        before = len(world.admin.row_requests)
        world.round()
        rounds.append(world.admin.row_requests[before:])
    ends, lags = ["ends"], ["lags_and_readers"]
    assert rounds == [ends, lags, [], ends, [], [], ends, lags, [], ends, [], []]
    assert world.admin.row_requests.count("ends") == 120_000 // ENDS_MS
    assert world.admin.row_requests.count("lags_and_readers") == 120_000 // LAGS_MS
    assert "members" not in world.admin.row_requests
    assert world.admin.runtime_requests == 120_000 // ROUND_MS
    assert world.admin.opened == 1


def test_late_answers_make_it_slower() -> None:
    world = World()
    ask = world.admin._totals

    async def slow(address: str) -> dict[str, str]:
        world.admin.clock.advance(1_000)
        return await ask(address)

    world.admin.brokers.runtime_info = slow
    world.round(60)
    assert world.admin.runtime_requests <= 1 + 660 // 60 * 2


def test_a_broker_that_is_silent_leaves_a_gap() -> None:
    world = World()
    world.round(6)
    world.admin.runtime_error = UnreachableError("no answer")
    known = len(world.points(CLUSTER, Measure.in_rate))
    world.round(6)
    assert len(world.points(CLUSTER, Measure.in_rate)) == known
    assert len(world.points(TOPIC, Measure.in_rate)) == 1, "an old figure is no new point"
    assert world.recorder.at_ms == {Part.ends: 30_000, Part.lags: 10_000}
    world.admin.runtime_error = None
    world.round(12)
    points = world.rings.points(CLUSTER, Measure.in_rate, point_at(world.admin.clock.monotonic_ms()))
    assert points is not None
    assert ["-" if isnan(value) else "x" for value in points[-25:]] == list("-xxxxx--------xxxxxxxxxx-")
    assert set(world.points(TOPIC, Measure.in_rate)) == {50.0}, "no average over the gap"


def test_name_servers_that_do_not_answer_are_a_problem_until_they_do(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()

    async def fail(admin: Any) -> Any:
        raise UnreachableError("10.0.0.1:9876 can't be reached")

    with monkeypatch.context() as patch:
        patch.setattr("pymq.operations.top.sample.brokers", fail)
        world.round(3)
        assert "10.0.0.1:9876 can't be reached" in world.recorder.problem
        assert "pymq doctor" in world.recorder.advice
    world.round(3)
    assert not world.recorder.problem
    assert world.points(CLUSTER, Measure.in_rate) == [50, 50]


@pytest.mark.parametrize(
    ("has_credentials", "error", "advice"),
    [
        (True, REFUSAL, "Grant Get on Cluster:*"),
        (False, RefusedError(16, "username cannot be null."), "PYMQ_ACCESS_KEY"),
        (True, RefusedError(16, "check signature failed."), "PYMQ_ACCESS_KEY"),
        (False, REFUSAL, "PYMQ_ACCESS_KEY"),
    ],
)
def test_a_cluster_that_refuses_the_console_is_not_sampled(
    has_credentials: bool, error: Exception, advice: str
) -> None:
    world = World(has_credentials=has_credentials)
    world.admin.runtime_error = error
    world.round(REFUSED_AGAIN_MS // ROUND_MS)
    assert world.admin.runtime_requests == 1, "and asked again after a while"
    assert str(error) in world.recorder.problem and advice in world.recorder.advice
    assert not world.rings.count
    world.admin.runtime_error = None
    world.round(3)
    assert not world.recorder.problem and not world.recorder.advice
    assert world.rings.count


def test_a_broker_that_is_busy_is_asked_again_soon() -> None:
    world = World()
    world.round()
    world.admin.given["lags_and_readers"] = RefusedError(2, "too many requests wait")
    world.round()
    assert not world.recorder.problem
    world.round(8)
    assert world.points(GROUP, Measure.lag)


def test_a_right_that_is_missing_for_one_part_is_said() -> None:
    world = World(has_credentials=True)
    world.round()
    world.admin.given["lags_and_readers"] = RefusedError(16, "has no permission to access any group")
    world.round()
    assert "has no permission to access any group" in world.recorder.problem


def test_the_busiest_topics_get_the_room_that_there_is() -> None:
    world = World(series_max=8)

    def give(factor: int) -> None:
        world.admin.given["ends"] = Rows((f"t{rate}", TopicEnds(end=factor * rate)) for rate in range(5))
        readers: Rows[TopicReaders] = Rows()
        world.admin.given["lags_and_readers"] = (Rows(g=GroupLag(topics=1, lag=1, offsets=1)), readers)

    async def rounds() -> None:
        for count in range(4):
            give(count)
            await world.recorder.round()
            world.admin.clock.advance(10_000)

    asyncio.run(rounds())
    topics = {subject.name for subject in world.rings if subject.kind is Kind.topic}
    assert world.rings.count == 8 and topics == {"t4", "t3"}
    assert world.recorder.left_out == 3


def test_brokers_that_report_the_time_of_sends_have_a_series_of_it() -> None:
    world = World()
    world.admin.runtime_extra = {"putLatency99": "3.50"}
    world.round()
    assert world.points(CLUSTER, Measure.send_ms) == [3.5]
    for extra in ({"putLatency99": "0", "pymqVersion": "1"}, {"putLatency99": "none"}, {}):
        world.admin.runtime_extra = extra
        world.round()
        assert world.points(CLUSTER, Measure.send_ms) == [3.5]


def test_a_fault_does_not_end_the_samples(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        world.admin.pass_time()
        if len(slept) == 2:
            raise asyncio.CancelledError

    recorder = Recorder(lambda: world.admin, world.admin.clock, world.rings, sleep=sleep)  # type: ignore[arg-type,return-value]
    world.admin.runtime_error = ValueError("a bug")

    async def run() -> None:
        with pytest.raises(asyncio.CancelledError):
            await recorder.run()
        await recorder.close()

    asyncio.run(run())
    assert "a sample of a cluster" in caplog.text
    assert slept == [ROUND_MS / 1000] * 2
    assert world.admin.closed == 1


def test_the_first_ends_and_lags_come_one_soon_after_the_other() -> None:
    world, slept = World(), list[float]()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        world.admin.pass_time(round(seconds))
        if len(slept) == 3:
            raise asyncio.CancelledError

    recorder = Recorder(lambda: world.admin, world.admin.clock, world.rings, sleep=sleep)  # type: ignore[arg-type,return-value]
    assert recorder.ends() is None and recorder.lags() is None

    async def run() -> None:
        with pytest.raises(asyncio.CancelledError):
            await recorder.run()

    asyncio.run(run())
    assert slept == [REST_MIN_MS / 1000, ROUND_MS / 1000, ROUND_MS / 1000]
    assert world.admin.row_requests == ["ends", "lags_and_readers"]
    assert recorder.took_ms == {Part.ends: 0, Part.lags: 0}
    ends, lags = recorder.ends(), recorder.lags()
    assert ends is not None and list(ends[1]["a"]) == ["t0"] and lags is not None and list(lags[1]) == ["g"]


class Paired(World):
    """A cluster whose group g is behind on two topics."""

    def __init__(self) -> None:
        super().__init__()
        self.lags = {"t0": 5, "t1": 0}
        self.asked: list[str] = []
        self.gives_lags = True
        self.away: dict[str, str] = {}
        self.admin.rows.lags_and_readers = self._rows

    async def _rows(self, address: str, *, by_topic: Sequence[str], **_: Any) -> tuple[Rows[GroupLag], Rows[Any]]:
        self.asked += by_topic
        self.admin.unreached.update(self.away)
        found: Rows[GroupLag] = Rows()
        for group, lag in (("g", 5), ("idle", 0)):
            lags = self.lags if group in by_topic and self.gives_lags else None
            found[group] = GroupLag(topics=2, lag=lag, offsets=2, by_topic=lags)
        return found, Rows()

    def lag_of(self, topic: str) -> list[float]:
        return self.points(Subject(Kind.pair, "g", topic), Measure.lag)


ROUNDS_OF_LAGS = LAGS_MS // ROUND_MS


def test_the_worst_groups_lags_come_by_topic_and_become_0() -> None:
    world = Paired()
    world.round(ROUNDS_OF_LAGS)
    assert world.asked == [], "the first lags say which groups are behind"
    world.round(ROUNDS_OF_LAGS)
    assert world.asked == ["g"] and set(world.lag_of("t0")) == {5} and world.lag_of("t1") == []
    world.lags = {"t0": 0, "t1": 7}
    world.round(ROUNDS_OF_LAGS)
    assert world.asked == ["g", "g"] and world.lag_of("t0")[-1] == 0 and world.lag_of("t1")[-1] == 7


def test_a_group_that_someone_looks_at_is_asked_for_with_the_topic_on_its_page() -> None:
    world = Paired()
    world.recorder.watch("idle", "t1")
    world.round(3)
    assert world.asked == ["idle"]
    assert world.points(Subject(Kind.pair, "idle", "t1"), Measure.lag) == [0]


def test_lags_by_topic_that_are_not_whole_are_gaps() -> None:
    world = Paired()
    world.recorder.watch("g", "t0")
    world.away = {"b": "a broker without a master"}
    world.round(3)
    assert world.asked == ["g"] and world.lag_of("t0") == []
    world.away = {}
    world.gives_lags = False
    world.round(ROUNDS_OF_LAGS)
    assert world.asked == ["g", "g"] and world.lag_of("t0") == []
    world.gives_lags = True
    world.round(ROUNDS_OF_LAGS)
    assert world.lag_of("t0")[-1] == 5


def test_a_broker_that_gives_lags_of_groups_that_nobody_asked_for_fills_no_rings() -> None:
    world = World(series_max=2_000)
    lies = {f"liar{number}": {f"t{topic}": topic for topic in range(100)} for number in range(50)}
    rows = Rows((group, GroupLag(topics=100, lag=5, offsets=2, by_topic=lags)) for group, lags in lies.items())

    async def lie(address: str, **_: Any) -> tuple[Rows[GroupLag], Rows[Any]]:
        return rows, Rows()

    world.admin.rows.lags_and_readers = lie
    world.round(3)
    pairs = [subject for subject in world.rings if subject.kind is Kind.pair]
    assert len(pairs) == WORST_PAIRS_MAX, "as many as of all groups that nobody looks at"


def test_a_recorder_that_never_asked_has_nothing_to_close() -> None:
    world = World()
    asyncio.run(world.recorder.close())
    assert not world.admin.closed and world.recorder.at_ms == {} and Part.ends not in world.recorder.at_ms


def test_a_broker_without_rows_is_asked_in_turns_that_are_joined() -> None:
    """Each round asks for a part of the topics, and the rounds are more frequent."""
    world = World()
    world.admin.topic_count = 900

    async def rounds() -> None:
        for _ in range(40):
            world.admin.given = {}
            await world.recorder.round()
            world.admin.clock.advance(10_000)
            world.admin.end += 500

    asyncio.run(rounds())
    assert 4 < world.admin.asked.count("t0") < 20
    now = point_at(world.admin.clock.monotonic_ms())
    points = world.rings.points(TOPIC, Measure.in_rate, now) or []
    known = [at for at, value in enumerate(points) if not isnan(value)]
    assert known == list(range(known[0], known[-1] + 1)), "no gap"
    assert {round(points[at]) for at in known} == {50}
