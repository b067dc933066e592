"""Rows of one master, from a few requests or in turns; what it does not answer stays as it was."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from pymq.client.admin import BrokerTarget
from pymq.client.admin.rows import Rows
from pymq.clock import ManualClock
from pymq.operations.top.broker_tables import LISTED_EVERY_MS, TIMED_EVERY_MS, BrokerTables, Dated
from pymq.operations.top.sample import Sampler
from pymq.wire.bodies_rows import GroupLag
from tests.operations.top.sampled import Brokers, rates


def test_rows_know_when_they_came() -> None:
    table: Dated[int] = Dated()
    assert not table.is_whole
    table.replace({"a": 1, "b": 2}, 5)
    table.put("b", 3, 7)
    assert (table, table.at_ms) == ({"a": 1, "b": 3}, {"a": 5, "b": 7})
    table.keep(["b", "c"])
    assert (table, table.at_ms) == ({"b": 3}, {"b": 7})


def test_times_that_a_row_does_not_have_are_asked_for_in_turn() -> None:
    admin = Brokers()
    admin.end = 100
    names = [f"g{number}" for number in range(3)]
    admin.give_rows()
    far = Rows((name, GroupLag(topics=1, lag=5, offsets=1)) for name in names)
    admin.given["lags_and_readers"] = (far, Rows())
    sampler = Sampler(admin, admin.clock)  # type: ignore[arg-type]
    ages = []
    for _ in range(4):
        for _ in range(2):
            found = asyncio.run(sampler.sample())
        ages.append(sum(at.age_ms is not None for at in found.groups.values()))
        admin.clock.advance(TIMED_EVERY_MS)
    assert ages == [1, 2, 3, 3], "one group at a time, the others keep their times"
    assert admin.asked_groups == ["g0", "g1", "g2", "g0"]
    assert [row["behind_ms"] is None for row in rates(found).groups()] == [False] * 3


def test_times_are_asked_for_as_often_as_a_sampler_wants() -> None:
    admin = Brokers()
    admin.give_rows()
    admin.given["lags_and_readers"] = (Rows(g=GroupLag(topics=1, lag=5, offsets=1)), Rows())
    sampler = Sampler(admin, admin.clock, timed_every_ms=60_000)  # type: ignore[arg-type]
    for _ in range(13):
        asyncio.run(sampler.sample())
        admin.clock.advance(10_000)
    assert admin.asked_groups == ["g"] * 3


def test_a_sample_that_is_given_up_leaves_no_question_that_was_never_asked() -> None:
    admin = Brokers()
    admin.give_rows()
    tables = BrokerTables(admin, admin.clock)  # type: ignore[arg-type]

    async def give_up(turns: int) -> None:
        refresh = asyncio.ensure_future(tables.refresh(BrokerTarget("a", "c", "a:1"), with_names=False))
        for _ in range(turns):
            await asyncio.sleep(0)
        refresh.cancel()
        with suppress(asyncio.CancelledError):
            await refresh

    for turns in range(6):
        asyncio.run(give_up(turns))
        gc.collect()  # a coroutine that was never awaited warns, and a warning is a failure


def test_a_broker_without_rows_is_asked_for_them_now_and_then() -> None:
    admin = Brokers()
    sampler = Sampler(admin, admin.clock)  # type: ignore[arg-type]
    for _ in range(3):
        asyncio.run(sampler.sample())
    assert len(admin.row_requests) == 3
    admin.clock.advance(LISTED_EVERY_MS)
    asyncio.run(sampler.sample())
    assert len(admin.row_requests) == 6


def test_places_of_groups_take_turns_and_the_others_keep_theirs() -> None:
    """The first sample asks for all; later ones end after a time, and the next goes on there."""
    admin = Brokers()
    admin.group_names, admin.answer_ms, admin.end = [f"g{number}" for number in range(6)], 150, 100
    sampler = Sampler(admin, admin.clock)  # type: ignore[arg-type]
    first = asyncio.run(sampler.sample())
    assert (sorted({group for group, _ in first.groups}), admin.asked_groups) == (admin.group_names,) * 2
    admin.asked_groups, admin.end = [], 200
    second = asyncio.run(sampler.sample())
    assert admin.asked_groups == ["g0", "g1", "g2", "g3"], "two at once, until 400 ms are over"
    assert [at.row.committed for _, at in sorted(second.groups.items())] == [200] * 4 + [100] * 2
    admin.asked_groups = []
    asyncio.run(sampler.sample())
    assert admin.asked_groups == ["g4", "g5", "g0", "g1"]
    admin.group_names = ["g5"]
    admin.clock.advance(LISTED_EVERY_MS)
    assert {group for group, _ in asyncio.run(sampler.sample()).groups} == {"g5"}, "deleted groups are gone"


def test_requests_for_topics_are_bounded_and_take_turns() -> None:
    admin, clock = Brokers(topic_count=5), ManualClock()
    sampler = Sampler(admin, clock, requests_max=2)  # type: ignore[arg-type]
    sizes = []
    for _ in range(4):
        sizes.append(len(asyncio.run(sampler.sample()).topics))
        clock.advance(1000)
    assert admin.asked == ["t0", "t1", "t2", "t3", "t4", "t0", "t1", "t2"]
    assert sizes == [2, 4, 5, 5]


def test_lags_by_topic_are_asked_for_where_rows_are_given_and_summed_elsewhere() -> None:
    async def row_of(admin: Brokers, by_topic: Sequence[str]) -> GroupLag:
        tables = BrokerTables(admin, admin.clock)  # type: ignore[arg-type]
        await tables.refresh(BrokerTarget("a", "c", "a:1"), with_names=False, by_topic=by_topic)
        return tables.groups["g"]

    apache = Brokers()
    apache.end = 10
    assert asyncio.run(row_of(apache, ["g"])).by_topic == {"t0": 10}
    assert asyncio.run(row_of(apache, [])).by_topic is None
    own, asked = Brokers(), list[Sequence[str]]()
    own.give_rows()
    rows = own.given["lags_and_readers"]

    async def give(address: str, *, by_topic: Sequence[str], **_: Any) -> Any:
        asked.append(by_topic)
        return rows

    own.rows.lags_and_readers = give
    asyncio.run(row_of(own, ["g"]))
    assert asked == [["g"]]
