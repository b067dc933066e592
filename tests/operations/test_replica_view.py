"""``cluster list`` and ``broker status``: every broker with its lag, whichever brokers answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pymq.errors import NotFoundError, UnreachableError
from pymq.operations.broker.listing import list_brokers
from pymq.operations.broker.status import describe
from pymq.operations.replica_view import BrokerView, SlaveLag, lag_of, problems_of
from pymq.wire.bodies_replication import HaClientState, ReplicationStatus, SlaveState
from tests.cli.worlds import CLUSTER, WorldAdmin, master, slave_of


def status(broker_id: int, log_end: int, message_count: int, **more: Any) -> ReplicationStatus:
    role = "SLAVE" if broker_id else "ASYNC_MASTER"
    return ReplicationStatus(
        cluster=CLUSTER,
        broker_name="broker-a",
        broker_id=broker_id,
        role=role,
        address=f"10.0.0.{broker_id + 1}:10911",
        log_end=log_end,
        message_count=message_count,
        **more,
    )


def view(answer: ReplicationStatus | None, broker_id: int = 0, error: str = "") -> BrokerView:
    return BrokerView(CLUSTER, "broker-a", broker_id, f"10.0.0.{broker_id + 1}:10911", answer, {}, error)


def test_the_lag_of_a_slave_comes_from_its_master() -> None:
    seen = SlaveState(address="10.0.0.2:5", broker_id=1, lag_bytes=30, lag_messages=3, lag_ms=40, in_sync=True)
    other = SlaveState(address="10.0.0.2:6", broker_id=2, lag_bytes=999)
    leader = view(status(0, 100, 10, slaves=[seen, other]))
    assert lag_of(view(status(1, 70, 7), 1), leader) == SlaveLag(30, 3, 40, True)


def test_a_slave_without_an_id_is_matched_by_host_if_unambiguous() -> None:
    unnamed = SlaveState(address="10.0.0.2:5", lag_bytes=30, lag_ms=-1, in_sync=True)
    slave = view(status(1, 70, -1), 1)
    assert lag_of(slave, view(status(0, 100, -1, slaves=[unnamed]))) == SlaveLag(30, None, None, True)
    two = view(status(0, 100, -1, slaves=[unnamed, SlaveState(address="10.0.0.2:6")]))
    assert lag_of(slave, two) == SlaveLag(30, None, None, None)


@pytest.mark.parametrize(
    ("log_end", "count", "expected"), [(60, 7, SlaveLag(40, 3, None, False)), (100, 10, SlaveLag(0, 0, 0, False))]
)
def test_without_a_connection_the_lag_comes_from_the_log_ends(log_end: int, count: int, expected: SlaveLag) -> None:
    assert lag_of(view(status(1, log_end, count), 1), view(status(0, 100, 10))) == expected


def test_without_a_master_the_lag_comes_from_the_slave() -> None:
    ha_client = HaClientState(lag_bytes=5, lag_ms=7)
    assert lag_of(view(status(1, 60, 7, ha_client=ha_client), 1), None) == SlaveLag(5, None, 7, None)
    assert lag_of(view(None, 1), None) == SlaveLag()


def test_problems_from_all_brokers_are_listed_once() -> None:
    ha_client = HaClientState(state="refused", problem="another cluster")
    slave = view(status(1, 0, 0, ha_client=ha_client, problem="another cluster"), 1)
    slave.runtime = {"storeProblems": "the disk is full"}
    assert problems_of(slave) == ["the disk is full", "another cluster"]
    bad = SlaveState(address="h:1", problem="too slow")
    leader = view(status(0, 0, 0, slaves=[bad], required_slaves=2, in_sync_slaves=1))
    assert problems_of(leader) == ["slave h:1: too slow", "1 of 2 required slaves are in sync"]
    refusing = "needs 2 slaves in sync (inSyncReplicas 3), but has 1: nothing is stored"
    leader.runtime = {"storeProblems": refusing}
    assert problems_of(leader) == [refusing, "slave h:1: too slow"], "the state says so already"
    assert problems_of(view(None, 1, "no answer")) == ["no answer"]
    assert problems_of(view(status(1, 0, 0, ha_client=HaClientState(state="waiting")), 1)) == [
        "does not follow its master: waiting"
    ]
    assert problems_of(view(status(1, 0, 0, ha_client=HaClientState(state="following")), 1)) == []


def test_a_degraded_master_and_missing_slaves_are_problems() -> None:
    slaves = [
        SlaveState(address="h:1", problem="the peer closed it", state="gone"),
        SlaveState(address="h:2", broker_id=3, problem="another cluster", state="refused"),
    ]
    leader = view(status(0, 0, 0, slaves=slaves, required_slaves=1, degraded=True))
    assert problems_of(leader) == [
        "slave h:1 is gone: the peer closed it",
        "slave h:2 is refused: another cluster",
        "degraded: 0 of 1 required slaves are in sync, and sends don't wait for more (enableAutoInSyncReplicas)",
    ]


def test_rejected_peers_are_one_problem() -> None:
    peers = [SlaveState(address=f"h:{port}", problem="garbage", state="refused") for port in (1, 2)]
    leader = view(status(0, 100, 9, slaves=peers))
    assert problems_of(leader) == ["2 peers rejected at the HA port lately, last h:2: garbage"]
    assert lag_of(view(status(1, 60, 7), 1), leader) == SlaveLag(40, 2, None, None), "no rejected peer is that slave"


def test_every_broker_is_listed_even_if_unreachable() -> None:
    leader, follower = slave_of(master())
    leader.put("orders", b"more")
    admin = WorldAdmin()
    admin.add("broker-a", 0, leader)
    admin.add("broker-a", 1, follower)
    admin.add("broker-b", 0, None)
    (first, second, third), silent = asyncio.run(list_brokers(admin, None))  # type: ignore[arg-type]
    assert (first["broker"], first["role"], first["version"]) == ("broker-a", "ASYNC_MASTER", "V5_3_3")
    assert first["log_end"] == leader.parts.store.physical_max_offset and first["in_per_second"] is not None
    assert (second["broker_id"], second["role"], second["lag_messages"]) == (1, "SLAVE", 1)
    assert second["lag_bytes"] == first["log_end"] - second["log_end"] > 0
    assert third["role"] is None and "can't be reached" in third["problems"][0]
    assert silent == {"broker-b:0": third["problems"][0]}
    assert asyncio.run(list_brokers(admin, CLUSTER))[0] == [first, second, third]  # type: ignore[arg-type]
    with pytest.raises(NotFoundError, match="east"):
        asyncio.run(list_brokers(admin, "west"))  # type: ignore[arg-type]


def test_a_broker_is_described_by_name_or_address() -> None:
    leader, follower = slave_of(master())
    leader.put("orders", b"more")
    admin = WorldAdmin()
    admin.add("broker-a", 0, leader)
    address = admin.add("broker-a", 1, follower)
    both = asyncio.run(describe(admin, "broker-a"))  # type: ignore[arg-type]
    assert [one["broker_id"] for one in both] == [0, 1]
    assert both[0]["log_end"] == leader.parts.store.physical_max_offset and both[0]["reachable"]
    (one,) = asyncio.run(describe(admin, address))  # type: ignore[arg-type]
    assert one == both[1]
    with pytest.raises(NotFoundError, match="broker-a"):
        asyncio.run(describe(admin, "broker-x"))  # type: ignore[arg-type]
    with pytest.raises(UnreachableError):
        asyncio.run(describe(admin, "10.9.9.9:1"))  # type: ignore[arg-type]
