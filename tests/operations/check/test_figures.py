"""``pymq check broker``, ``lag``, ``disk`` and the line that monitoring reads: levels, limits, performance data."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from pymq.client.admin.asking import BrokerTarget
from pymq.clock import ManualClock
from pymq.errors import NotFoundError, UnreachableError
from pymq.operations.check.figures import check_brokers, check_disks, check_lag
from pymq.operations.check.line import Figure, Level, Limits, Part, Result, worst
from pymq.operations.check.replica import as_result
from pymq.wire.bodies_admin import TopicLag
from tests.cli.worlds import WorldAdmin, master

NO_LIMITS = Limits()


def run(work: Any) -> Result:
    result = asyncio.run(work)
    assert isinstance(result, Result)
    return result


@pytest.mark.parametrize(
    ("limits", "value", "level"),
    [
        (NO_LIMITS, None, Level.OK),
        (NO_LIMITS, 10**9, Level.OK),
        (Limits(10, 20), 10, Level.OK),
        (Limits(10, 20), 11, Level.WARNING),
        (Limits(10, 20), 20, Level.WARNING),
        (Limits(10, 20), 21, Level.CRITICAL),
        (Limits(None, 20), 21, Level.CRITICAL),
        (Limits(10, 20), None, Level.UNKNOWN),
    ],
)
def test_a_figure_above_its_limit_is_bad(limits: Limits, value: float | None, level: Level) -> None:
    assert limits.level(value) is level


def test_the_first_line_has_the_worst_part_and_the_data() -> None:
    parts = [Part("a", Level.OK, "fine"), Part("b", Level.UNKNOWN, "silent"), Part("c", Level.CRITICAL, "is\nfull|")]
    figures = [Figure("it's = a|b", 1.5, "%", Limits(75, 90), 100), Figure("none", None), Figure("n", 3)]
    result = Result("disk", "all fine", parts, figures)
    assert result.level is Level.CRITICAL
    assert result.lines() == [
        "DISK CRITICAL - c: is full/, and 1 more | 'it''s - a/b'=1.5%;75;90;0;100 'none'=U;;;0 'n'=3;;;0",
        "CRITICAL c: is full/",
        "UNKNOWN b: silent",
    ]
    assert Result("disk", "all fine", parts[:1]).lines() == ["DISK OK - all fine"]
    assert worst([]) is Level.OK
    assert worst([Level.UNKNOWN, Level.WARNING]) is Level.WARNING, "a warning is known to be one"


def test_a_silent_broker_and_a_missing_master_are_critical() -> None:
    admin: Any = WorldAdmin()
    admin.add("broker-a", 0, master())
    admin.add("broker-b", 1, None)
    found = run(check_brokers(admin, None, limits_ms=NO_LIMITS, count_min=3, clock=ManualClock()))
    assert [(part.subject, part.level) for part in found.parts] == [
        ("cluster", Level.CRITICAL),
        ("broker-a", Level.OK),
        ("broker-b", Level.CRITICAL),
        ("broker-b", Level.CRITICAL),
    ]
    assert "2 brokers are registered instead of 3" in found.parts[0].text
    assert "no master is registered" in found.parts[-1].text
    assert [figure.text() for figure in found.figures[:2]] == ["'registered'=2;;;0", "'silent'=1;;;0"]
    none = run(check_brokers(WorldAdmin(), None, limits_ms=NO_LIMITS, count_min=0, clock=ManualClock()))  # type: ignore[arg-type]
    assert none.level is Level.CRITICAL
    with pytest.raises(NotFoundError, match="no broker 'x' is registered"):
        run(check_brokers(admin, "x", limits_ms=NO_LIMITS, count_min=0, clock=ManualClock()))


def test_disks_are_compared_with_the_limits_and_a_silent_one_is_unknown() -> None:
    admin: Any = WorldAdmin()
    admin.add("broker-a", 0, master())
    admin.add("broker-a", 1, None)
    found = run(check_disks(admin, None, limits_percent=Limits(0, 100), clock=ManualClock()))
    used = found.figures[0].value
    assert used is not None and 0 < used < 100
    assert [(part.subject, part.level) for part in found.parts] == [
        ("broker-a:0", Level.WARNING),
        ("broker-a:1", Level.UNKNOWN),
    ]
    assert found.level is Level.WARNING


class Groups:
    """Masters with groups: ``None`` in place of a table for one that does not answer."""

    def __init__(self, **tables: dict[str, dict[str, TopicLag]] | None) -> None:
        self.cluster = SimpleNamespace(masters=self._masters)
        self.groups = SimpleNamespace(topic_lags_at=self._lags, all_topic_lags_at=self._all_lags)
        self._tables = tables

    async def _masters(self) -> list[BrokerTarget]:
        return [BrokerTarget(name, "east", name) for name in self._tables]

    async def _lags(self, address: str, group: str, *, with_times: bool) -> dict[str, TopicLag]:
        return (await self._all_lags(address, with_times=with_times)).get(group, {})

    async def _all_lags(self, address: str, *, with_times: bool) -> dict[str, dict[str, TopicLag]]:
        table = self._tables[address]
        if table is None:
            raise UnreachableError("no answer in time")
        return table


def test_lag_is_judged_in_messages_and_in_time() -> None:
    clock = ManualClock(10_000_000)
    slow = {"orders": TopicLag(queues=1, lag=60, committed=40, consumed_ms=10_000_000 - 90_000)}
    done = {"orders": TopicLag(queues=1, committed=100)}
    fresh = {"orders": TopicLag(queues=4, committed=0, unknown_queues=2)}
    admin: Any = Groups(a={"slow": slow, "done": done, "fresh": fresh})

    def check(group: str | None, limits: Limits, limits_ms: Limits = NO_LIMITS, topic: str | None = None) -> Result:
        return run(check_lag(admin, group, topic, limits=limits, limits_ms=limits_ms, clock=clock))

    assert check(None, Limits(59, 60)).level is Level.WARNING
    assert check(None, Limits(60, 60)).level is Level.OK
    assert check("done", Limits(0, 0), Limits(0, 0)).level is Level.OK, "nothing waits, however old the last one is"
    found = check("slow", NO_LIMITS, Limits(60_000, 90_000))
    assert found.level is Level.WARNING
    assert found.lines() == [
        "LAG WARNING - slow: 60 messages behind, the last one consumed is 1m 30s old | "
        "'slow'=60;;;0 'slow time'=90s;60;90;0"
    ]
    [unread] = check("fresh", Limits(0, 0)).parts
    assert unread.level is Level.UNKNOWN, "messages wait, and it is not known for which of them it will begin"
    assert unread.text.endswith("; in 2 queues with messages it has committed nothing: no lag is known there")
    with pytest.raises(NotFoundError, match="group 'slow' has no place in topic 'other'"):
        check("slow", NO_LIMITS, topic="other")
    admin = Groups(a={"slow": slow}, b=None)
    assert check("slow", Limits(100, 100)).level is Level.UNKNOWN, "the other broker may have more"
    assert check("slow", Limits(1, 10)).level is Level.CRITICAL
    assert check("elsewhere", NO_LIMITS).level is Level.UNKNOWN
    admin = Groups(a={"slow": slow}, b={"slow": slow})
    assert check("slow", NO_LIMITS).figures[0].value == 120, "a sum over brokers"


def test_problems_of_replicas_are_critical_and_their_lag_has_limits() -> None:
    record = {"broker": "a", "slave_id": 1, "lag_bytes": 2048, "problems": [], "notes": []}
    assert as_result([record], NO_LIMITS).level is Level.OK
    assert as_result([record], Limits(2047, 4096)).level is Level.WARNING
    damaged = as_result([{**record, "problems": ["it is damaged: recover it"]}], NO_LIMITS)
    assert damaged.level is Level.CRITICAL
    assert damaged.lines()[0] == "REPLICA CRITICAL - a slave 1: it is damaged: recover it | 'a slave 1'=2048B;;;0"
