"""A sample asks for a bounded number of counters, in turn; what a broker does not answer stays as it was."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pymq.client.admin.rows import Rows
from pymq.clock import ManualClock
from pymq.errors import NotFoundError, RefusedError, UnreachableError
from pymq.model.route import BrokerData
from pymq.operations.asking.retried import RETRY_AFTER_MS
from pymq.operations.top.broker_tables import LISTED_EVERY_MS, Part
from pymq.operations.top.sample import GroupSample, ReaderSample, Sample, Sampler, TopicSample
from pymq.wire.bodies_route import ClusterInfo
from pymq.wire.bodies_rows import GroupLag, TopicEnds, TopicReaders
from tests.operations.top.sampled import Brokers


def test_a_sample_adds_queues_up_and_keeps_what_a_silent_broker_does_not_answer() -> None:
    admin = Brokers()
    sampler = Sampler(admin, admin.clock)  # type: ignore[arg-type]
    admin.end = 100
    found = asyncio.run(sampler.sample())
    master, slave = found.brokers
    assert (master.put, master.got, master.disk, slave.error) == (100, None, None, "no answer")
    assert found.topics["t1", "a"] == TopicSample(0, 100, 100)
    row = GroupLag(topics=1, lag=100, committed=100, offsets=None, consumed_ms=1, names=["t0"])
    assert found.groups == {("g", "a"): GroupSample(0, row, 999_999)}, "no system group"
    readers = TopicReaders(groups=1, lag=100, committed=100, offsets=None, names=["g"])
    assert found.readers["t0", "a"] == ReaderSample(0, readers)
    assert found.members == {"g": 2}


def test_a_broker_that_gives_rows_is_asked_for_nothing_else() -> None:
    admin = Brokers()
    admin.end = 100
    admin.give_rows(lag=5, committed=95, consumed_ms=admin.clock.now_ms() - 700)
    sampler = Sampler(admin, admin.clock)  # type: ignore[arg-type]
    found = asyncio.run(sampler.sample())
    assert found.topics == {("t0", "a"): TopicSample(0, 100, 100)}
    assert {name: (at.row.lag, at.age_ms) for name, at in found.groups.items()} == {("g", "a"): (5, 700)}
    assert found.readers["t0", "a"].row.groups == 1 and found.members == {"g": 2}
    assert admin.row_requests == ["ends", "lags_and_readers", "members"]
    assert not admin.asked and not admin.asked_groups


def test_what_a_broker_does_not_answer_stays_as_it_was() -> None:
    admin = Brokers()
    admin.give_rows(lag=5)
    sampler = Sampler(admin, admin.clock)  # type: ignore[arg-type]
    first = asyncio.run(sampler.sample())
    admin.clock.advance(1000)
    admin.given = dict.fromkeys(admin.given, UnreachableError("no answer"))
    second = asyncio.run(sampler.sample())
    assert (second.topics, second.readers, second.members) == (first.topics, first.readers, first.members)
    assert second.groups["g", "a"].at_ms == 0, "it shows how old it is"


def test_members_that_may_not_be_seen_are_unknown() -> None:
    admin = Brokers()
    admin.give_rows(lag=5)
    admin.given["members"] = Rows()
    sampler = Sampler(admin, admin.clock)  # type: ignore[arg-type]
    assert asyncio.run(sampler.sample()).members == {"g": 0}
    admin.given["members"].withheld = True
    assert asyncio.run(sampler.sample()).members == {"g": None}


def test_a_broker_that_hangs_does_not_hold_the_others_up() -> None:
    admin = Brokers()

    async def hang(address: str) -> dict[str, str]:
        await asyncio.sleep(3600 if address == "h:2" else 0)
        return {"msgPutTotalTodayNow": "1"}

    admin.brokers.runtime_info = hang
    sampler = Sampler(admin, ManualClock(), answer_time_max_s=0.05)  # type: ignore[arg-type]
    found = asyncio.run(sampler.sample())
    assert [(one.put, one.error) for one in found.brokers] == [(1, ""), (None, "no answer within 0.05 s")]


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


def test_a_sample_asks_for_the_wanted_parts_alone() -> None:
    admin = Brokers()
    admin.give_rows(lag=5)
    sampler = Sampler(admin, admin.clock)  # type: ignore[arg-type]
    assert not asyncio.run(sampler.sample([])).topics
    assert not admin.row_requests
    found = asyncio.run(sampler.sample([Part.ends]))
    assert found.topics and not found.groups
    assert admin.system_asked == 1, "their names go with the ends"
    found = asyncio.run(sampler.sample([Part.lags]))
    assert found.topics and found.groups and found.members == {"g": None}
    assert admin.row_requests == ["ends", "lags_and_readers"]


def test_a_broker_without_rows_is_asked_for_the_wanted_parts_alone() -> None:
    admin = Brokers()
    sampler = Sampler(admin, admin.clock, requests_max=2)  # type: ignore[arg-type]
    assert sampler.rounds(Part.ends) == 1, "nothing is known yet"
    asyncio.run(sampler.sample([Part.ends]))
    assert admin.asked and not admin.asked_groups
    assert [sampler.rounds(part) for part in Part] == [2, 1, 1], "three topics, two of them a sample"


def test_refusals_of_the_last_sample_are_kept() -> None:
    admin = Brokers()
    admin.give_rows(lag=5)
    refusal = RefusedError(16, "User:reader has no permission to access Group:g")
    admin.given["lags_and_readers"] = refusal
    sampler = Sampler(admin, admin.clock)  # type: ignore[arg-type]
    asyncio.run(sampler.sample())
    assert sampler.refusals == {"a": refusal}

    async def refuse(address: str) -> dict[str, str]:
        raise refusal

    runtime_info, admin.brokers.runtime_info = admin.brokers.runtime_info, refuse
    asyncio.run(sampler.sample())
    assert sampler.refusals == {"h:1": refusal, "h:2": refusal}
    admin.brokers.runtime_info = runtime_info
    asyncio.run(sampler.sample([Part.ends]))
    assert not sampler.refusals


def test_names_that_rows_count_are_asked_for_on_several_masters() -> None:
    for counts_names in (True, False):
        admin = Brokers()
        wanted: list[bool] = []

        async def info(admin: Brokers = admin) -> ClusterInfo:
            data = {name: BrokerData(cluster="east", broker_name=name, broker_addrs={0: "h:1"}) for name in "ab"}
            return ClusterInfo(broker_addr_table=data)

        async def ends(address: str) -> Rows[TopicEnds]:
            return Rows()

        async def lags(address: str, *, with_names: bool, wanted: list[bool] = wanted, **_: Any) -> Any:
            wanted.append(with_names)
            return Rows(), Rows()

        admin.cluster.info, admin.rows.ends, admin.rows.lags_and_readers = info, ends, lags
        sampler = Sampler(admin, admin.clock, counts_names=counts_names)  # type: ignore[arg-type]
        asyncio.run(sampler.sample([Part.ends, Part.lags]))
        assert wanted == [counts_names] * 2


def test_newest_rows_of_all_masters_come_with_the_time_of_the_oldest() -> None:
    admin = Brokers()
    sampler = Sampler(admin, admin.clock)  # type: ignore[arg-type]
    assert sampler.ends() is None and sampler.lags() is None, "nothing was asked"
    admin.give_rows(lag=5, committed=95)
    asyncio.run(sampler.sample([Part.ends]))
    assert sampler.ends() == (0, {"a": {"t0": TopicEnds(queues=2)}}) and sampler.lags() is None
    admin.clock.advance(700)
    asyncio.run(sampler.sample([Part.lags]))
    found = sampler.lags()
    assert found is not None and found[0] == 700 and list(found[1]) == ["g"] and found[1]["g"].lag == 5
    assert not found[1].withheld
    admin.given["lags_and_readers"][0].withheld = True
    asyncio.run(sampler.sample([Part.lags]))
    again = sampler.lags()
    assert again is not None and again[1].withheld


def test_groups_that_read_nothing_have_no_lag_of_0() -> None:
    admin = Brokers()
    admin.give_rows(lag=5)
    admin.given["lags_and_readers"][0]["idle"] = GroupLag()
    sampler = Sampler(admin, admin.clock)  # type: ignore[arg-type]
    asyncio.run(sampler.sample())
    found = sampler.lags()
    assert found is not None and list(found[1]) == ["g"]


def test_rows_that_come_in_turn_are_as_old_as_the_oldest_and_not_whole() -> None:
    admin = Brokers()
    sampler = Sampler(admin, admin.clock, requests_max=2)  # type: ignore[arg-type]
    asyncio.run(sampler.sample())
    admin.clock.advance(20_000)
    asyncio.run(sampler.sample())
    ends, lags = sampler.ends(), sampler.lags()
    assert ends is not None and ends[0] == 0, "one of three topics was asked in the first round alone"
    assert lags is not None and lags[1].withheld


def test_the_name_of_a_broker_or_machine_limits_the_sample() -> None:
    async def work() -> None:
        admin, asked = Brokers(), []

        async def workers_of(name: str) -> list[str]:
            asked.append(name)
            return ["a"] if name == "m" else []

        admin.cluster.workers_of = workers_of
        sampler = Sampler(admin, admin.clock, broker="m")  # type: ignore[arg-type]
        for _ in range(3):
            assert {one.view.name for one in (await sampler.sample()).brokers} == {"a"}
        assert asked == ["m"], "not at each sample"
        admin.clock.advance(LISTED_EVERY_MS)
        await sampler.sample()
        assert asked == ["m", "m"]
        with pytest.raises(NotFoundError, match="no broker 'nowhere'"):
            await Sampler(admin, admin.clock, broker="nowhere").sample()  # type: ignore[arg-type]

    asyncio.run(work())
