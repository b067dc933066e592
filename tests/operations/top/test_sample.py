"""A sample asks for a bounded number of counters, in turn; what a broker does not answer stays as it was."""

from __future__ import annotations

import asyncio

from pymq.clock import ManualClock
from pymq.operations.asking.retried import RETRY_AFTER_MS
from pymq.operations.top.sample import LISTED_EVERY_MS, GroupSample, Sample, Sampler, TopicSample
from tests.operations.top.sampled import Brokers


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


def test_two_callers_at_once_get_one_sample() -> None:
    admin = Brokers()
    sampler = Sampler(admin, admin.clock)  # type: ignore[arg-type]

    async def both() -> list[Sample]:
        return list(await asyncio.gather(sampler.sample(), sampler.sample()))

    first, second = asyncio.run(both())
    assert first is second
    assert admin.asked == ["t0", "t1", "t2"], "each topic once"


def test_a_broker_that_was_without_a_master_is_asked_again() -> None:
    admin = Brokers()
    admin.unreached["a"] = "broker a has no master now"
    sampler = Sampler(admin, admin.clock)  # type: ignore[arg-type]
    asyncio.run(sampler.sample())
    assert admin.unreached
    admin.clock.advance(RETRY_AFTER_MS)
    asyncio.run(sampler.sample())
    assert not admin.unreached
