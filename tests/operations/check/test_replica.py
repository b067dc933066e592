"""``check replica``: the comparisons, and the problem that each difference yields."""

from __future__ import annotations

import asyncio
import itertools
import random
from typing import Any

import msgspec
import pytest

from pymq.errors import NotFoundError, RefusedError
from pymq.model import fastjson
from pymq.operations.check.replica import SAMPLE_BYTES, check_replicas, sample_ranges
from pymq.wire.admin_text import encode_whole
from pymq.wire.bodies_replication import EpochEntryBody, HaClientState, ReplicationStatus, SlaveState
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import Command
from tests.broker.world import Caller, World
from tests.cli.worlds import WorldAdmin, master, slave_of


class Pair:
    """A master and its slave with a healthy connection, until a test changes something."""

    def __init__(self, **settings: Any) -> None:
        self.master, self.slave = slave_of(master(100, **settings), **settings)
        self.admin = WorldAdmin()
        self.master_address = self.admin.add("broker-a", 0, self.master)
        self.slave_address = self.admin.add("broker-a", 1, self.slave)
        self.statuses = {
            self.master_address: self.status(self.master),
            self.slave_address: self.status(self.slave),
        }
        self.statuses[self.slave_address].ha_client = HaClientState(state="following")
        self.seen = SlaveState(address="10.0.0.2:7", broker_id=1, in_sync=True)
        self.statuses[self.master_address].slaves = [self.seen]
        for address in self.statuses:
            self.admin.connection.answers[address, RequestCode.PYMQ_GET_REPLICATION_STATUS] = self._answer(address)

    @staticmethod
    def status(world: World) -> ReplicationStatus:
        reply = Caller(world).ok(RequestCode.PYMQ_GET_REPLICATION_STATUS)
        return msgspec.json.decode(reply.body, type=ReplicationStatus)

    def _answer(self, address: str) -> Any:
        return lambda _: Command(0, body=msgspec.json.encode(self.statuses[address]))

    def check(self, samples: int = 4, *, full: bool = False) -> dict[str, Any]:
        (record,) = asyncio.run(check_replicas(self.admin, None, samples, full=full))  # type: ignore[arg-type]
        return record

    def flip(self, world: World, at: int) -> None:
        """Flip one bit of the log without the broker's knowledge."""
        file = world.parts.store._log.segments[0].file
        file.pwrite(at, bytes([file.pread(at, 1)[0] ^ 1]))


def test_equal_replicas_pass_and_the_compared_size_is_reported() -> None:
    pair = Pair()
    record = pair.check(full=True)
    assert record["ok"] and record["problems"] == [] and record["notes"] == []
    assert record["compared_bytes"] == pair.master.parts.store.physical_max_offset
    assert record["in_sync"] is True


def test_a_damaged_log_is_reported_with_broker_and_offset() -> None:
    pair = Pair(blockDigestEnable=True)
    for world in (pair.master, pair.slave):
        assert world.parts.store._digests is not None
        world.parts.store._digests.work()
    pair.flip(pair.slave, 5000)
    record = pair.check(full=True)
    assert not record["ok"]
    assert "damaged on the slave from offset 0" in record["problems"][0] and "recover" in record["problems"][0]


def test_differing_logs_without_digests_name_no_culprit() -> None:
    pair = Pair(blockDigestEnable=False)
    pair.flip(pair.master, 5000)
    (problem,) = pair.check(full=True)["problems"]
    assert "the logs differ from offset 0" in problem


def test_a_difference_in_the_last_bytes_is_found_without_samples() -> None:
    pair = Pair(blockDigestEnable=False)
    pair.flip(pair.slave, pair.slave.parts.store.physical_max_offset - 1)
    assert not pair.check(samples=0)["ok"]


def test_a_slave_that_is_not_in_sync_fails() -> None:
    pair = Pair()
    pair.seen.in_sync, pair.seen.lag_bytes = False, 5 << 20
    (problem,) = pair.check()["problems"]
    assert "5.0 MB behind" in problem


def test_old_tables_fail() -> None:
    pair = Pair()
    pair.master.parts.metadata.topics.load()
    Caller(pair.master).ok(
        RequestCode.UPDATE_AND_CREATE_TOPIC,
        topic="new",
        defaultTopic="TBW102",
        readQueueNums=1,
        writeQueueNums=1,
        perm=6,
        topicFilterType="SINGLE_TAG",
        topicSysFlag=0,
        order="false",
    )
    (problem,) = pair.check()["problems"]
    assert "table of topics differs" in problem and "new" in problem


def test_equal_tables_of_different_versions_are_equal() -> None:
    pair = Pair()

    def of_another_version(_: Command) -> Command:
        answer = Caller(pair.slave).ok(RequestCode.GET_ALL_TOPIC_CONFIG)
        table = fastjson.loads(answer.body)
        table["dataVersion"]["counter"] += 7
        return Command(0, body=encode_whole(table))

    pair.admin.connection.answers[pair.slave_address, RequestCode.GET_ALL_TOPIC_CONFIG] = of_another_version
    assert pair.check()["ok"]


def test_a_refused_slave_reports_its_own_reason() -> None:
    pair = Pair()
    pair.statuses[pair.slave_address].ha_client = HaClientState(state="refused", problem="id 1 is taken")
    assert pair.check()["problems"] == ["id 1 is taken"]


def test_other_segment_sizes_and_a_slave_ahead_fail() -> None:
    pair = Pair()
    pair.statuses[pair.slave_address].segment_size_bytes += 1
    (problem,) = pair.check()["problems"]
    assert "mappedFileSizeCommitLog" in problem
    pair = Pair()
    ahead = pair.statuses[pair.slave_address]
    pair.statuses[pair.master_address].log_end = ahead.log_end - 1
    ahead.epoch_history = [EpochEntryBody(1, 0, "aa")]
    (problem,) = pair.check(samples=0)["problems"]
    assert "followed another master" in problem


def test_brokers_without_digests_are_compared_by_offsets_alone() -> None:
    pair = Pair()

    def unsupported(_: Command) -> Command:
        raise RefusedError(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "unknown", pair.slave_address)

    pair.admin.connection.answers[pair.slave_address, RequestCode.PYMQ_LIST_LOG_DIGESTS] = unsupported
    record = pair.check()
    assert record["ok"] and record["compared_bytes"] is None and "no digests" in record["notes"][0]


def test_a_master_without_slaves_is_noted_as_the_doctor_notes_it() -> None:
    admin = WorldAdmin()
    admin.add("broker-a", 0, master())
    (alone,) = asyncio.run(check_replicas(admin, None, 1, full=False))  # type: ignore[arg-type]
    assert alone["ok"] and alone["notes"] == [
        "has no slave: what its disk loses is lost; pymq broker --name broker-a --id 1 starts one"
    ]
    (counted,) = asyncio.run(check_replicas(admin, None, 1, full=False, count_min=1))  # type: ignore[arg-type]
    assert counted["problems"] == [
        "0 slaves registered, 1 must be (--count): pymq broker --name broker-a --id 1 starts one"
    ]


def test_a_master_whose_sends_wait_for_slaves_needs_them() -> None:
    admin = WorldAdmin()
    admin.add("broker-a", 0, master(0, brokerRole="SYNC_MASTER", inSyncReplicas="2"))
    (alone,) = asyncio.run(check_replicas(admin, None, 1, full=False))  # type: ignore[arg-type]
    assert alone["problems"] == ["0 of 1 required slaves are in sync: pymq broker --name broker-a --id 1 starts one"]


def test_missing_masters_fail() -> None:
    admin = WorldAdmin()
    admin.add("dead", 0, None)
    (dead,) = asyncio.run(check_replicas(admin, None, 1, full=False))  # type: ignore[arg-type]
    assert "does not answer" in dead["problems"][0]
    with pytest.raises(NotFoundError, match="unknown"):
        asyncio.run(check_replicas(admin, "unknown", 1, full=False))  # type: ignore[arg-type]


def test_missing_slaves_are_to_be_restarted() -> None:
    pair = Pair()
    pair.seen.state, pair.seen.problem = "gone", "the peer closed it"
    del pair.admin.cluster.known["broker-a"].broker_addrs[1]
    assert pair.check()["problems"] == [
        "its slaves are gone: start them again: 10.0.0.2:7 (id 1: the peer closed it)",
    ]


@pytest.mark.parametrize(("low", "high", "count"), [(0, 10, 3), (0, 10 * SAMPLE_BYTES, 5), (7 << 30, 9 << 30, 16)])
def test_samples_lie_within_the_log_and_hold_its_last_bytes(low: int, high: int, count: int) -> None:
    ranges = sample_ranges(low, high, count, random.Random(3))
    assert all(low <= start < end <= high for start, end in ranges)
    assert ranges[-1][0] <= max(low, high - SAMPLE_BYTES) and ranges[-1][1] == high
    assert 1 <= len(ranges) <= count + 1
    assert sum(end - start for start, end in ranges) <= min(high - low, (count + 1) * SAMPLE_BYTES)
    assert all(end < start for (_, end), (start, _) in itertools.pairwise(ranges)), "no range is compared twice"
