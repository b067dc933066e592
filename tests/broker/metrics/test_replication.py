"""Roles and lag, as a master and a slave report them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from pymq.broker.metrics.replication import ReplicationMetrics
from pymq.broker.replication.roles.role import Role
from pymq.wire.bodies_replication import HaClientState, RecoveredTailState, SlaveState
from tests.broker.metrics.readings import Table, table
from tests.broker.report.test_replication_status import HaService
from tests.broker.world import World, master_side, slave_side

ONE, TWO = ("1", "10.0.0.2:10911"), ("2", "10.0.0.3:10911")


def figures(world: World) -> Table:
    return table(ReplicationMetrics(world.parts))


def master(*slaves: SlaveState, **settings: Any) -> World:
    world = World(**settings)
    for number in range(4):
        world.put("orders", queue_id=number % 2)
    ha_service = HaService(*slaves)
    master_side(world.parts).ha_service = ha_service  # type: ignore[assignment]
    world.parts.replication.sync_mode.slaves = ha_service
    return world


def test_a_master_without_slaves() -> None:
    found = figures(master())
    assert found["pymq_replication_role"] == {("ASYNC_MASTER",): 1, ("SYNC_MASTER",): 0, ("SLAVE",): 0}
    assert found["pymq_replication_broker_id"] == {(): 0}
    assert found["pymq_replication_epoch"] == {(): 1}
    assert found["pymq_replication_slave_connected"] == {}
    assert found["pymq_replication_in_sync_slaves"] == {(): 0}
    assert found["pymq_replication_problems"] == {(): 0}
    assert "pymq_replication_ha_client_state" not in found


def test_what_slaves_lack() -> None:
    world = master()
    end = world.parts.store.physical_max_offset
    half = end // 2
    slaves = [
        SlaveState(address=ONE[1], broker_id=1, ack_offset=end, in_sync=True, state="following", bytes_per_second=9),
        SlaveState(address=TWO[1], broker_id=2, ack_offset=half, lag_ms=2500, state="gone", problem="killed"),
    ]
    master_side(world.parts).ha_service = HaService(*slaves)  # type: ignore[assignment]
    found = figures(world)
    assert found["pymq_replication_slave_connected"] == {ONE: 1, TWO: 0}
    assert found["pymq_replication_slave_in_sync"] == {ONE: 1, TWO: 0}
    assert found["pymq_replication_slave_lag_bytes"] == {ONE: 0, TWO: end - half}
    assert found["pymq_replication_slave_lag_messages"] == {
        ONE: 0,
        TWO: sum(queue.count_from(half) for queue in world.parts.store.queue_views()),
    }
    assert found["pymq_replication_slave_lag_messages"][TWO] == 2
    assert found["pymq_replication_slave_lag_seconds"] == {ONE: 0, TWO: 2.5}
    assert found["pymq_replication_slave_bytes_per_second"] == {ONE: 9, TWO: 0}
    assert found["pymq_replication_in_sync_slaves"] == {(): 1}


def test_a_rejected_peer_has_no_series() -> None:
    rejected = SlaveState(address="10.0.0.9:4711", state="refused", problem="garbage")
    found = figures(master(rejected))
    assert found["pymq_replication_slave_connected"] == {} and found["pymq_replication_problems"] == {(): 0}


def test_a_slave_that_reconnects_is_reported_once() -> None:
    old = SlaveState(address=ONE[1], broker_id=1, state="connected")
    new = SlaveState(address=ONE[1], broker_id=1, state="following", in_sync=True)
    assert figures(master(old, new))["pymq_replication_slave_in_sync"] == {ONE: 0}


def test_a_slave_of_rocketmq_has_no_id() -> None:
    slave = SlaveState(address="10.0.0.9:4711", state="following")
    assert list(figures(master(slave))["pymq_replication_slave_connected"]) == [("-1", "10.0.0.9:4711")]


def test_a_sync_master_that_lacks_slaves() -> None:
    world = master(inSyncReplicas=3)
    world.config.broker_role = "SYNC_MASTER"
    world.parts.replication.sync_mode.check()
    found = figures(world)
    assert found["pymq_replication_role"][("SYNC_MASTER",)] == 1
    assert found["pymq_replication_required_slaves"] == {(): 2}
    assert found["pymq_replication_refusing_sends"] == {(): 1}
    assert found["pymq_replication_confirm_offset_bytes"] == {(): 0}
    assert found["pymq_replication_degraded"] == {(): 0}


def test_recovered_tail_bytes_and_a_fenced_epoch() -> None:
    world = master()
    found = figures(world)
    assert (found["pymq_replication_recovered_tail_bytes"], found["pymq_replication_epoch_fenced"]) == (
        {(): 0},
        {(): 0},
    )
    world.parts.replication.tail_recovery.recovered_tail = RecoveredTailState(
        start=100, end=350, sources=["10.0.0.2:10911"], time_ms=1
    )
    world.parts.replication.tail_recovery._fence = SimpleNamespace(why="slave 2 did not answer")  # type: ignore[assignment]
    found = figures(world)
    assert (found["pymq_replication_recovered_tail_bytes"], found["pymq_replication_epoch_fenced"]) == (
        {(): 250},
        {(): 1},
    )
    assert found["pymq_replication_problems"] == {(): 1}


def slave(state: HaClientState) -> Table:
    world = World(role=Role(1), brokerId=1)
    slave_side(world.parts).ha_client_state = lambda: state  # type: ignore[method-assign]
    return figures(world)


def test_a_slave_that_follows() -> None:
    state = HaClientState(state="following", lag_bytes=700, lag_ms=1500, bytes_per_second=42, metadata_age_ms=250)
    found = slave(state)
    assert found["pymq_replication_role"][("SLAVE",)] == 1
    assert found["pymq_replication_broker_id"] == {(): 1}
    assert [key for key, value in found["pymq_replication_ha_client_state"].items() if value] == [("following",)]
    names = ("ha_client_lag_bytes", "ha_client_lag_seconds", "ha_client_bytes_per_second", "tables_age_seconds")
    assert [found[f"pymq_replication_{name}"][()] for name in names] == [700, 1.5, 42, 0.25]
    assert "pymq_replication_slave_connected" not in found


def test_values_unknown_to_a_slave_have_no_series() -> None:
    found = slave(HaClientState(problem="no master is known yet"))
    assert [key for key, value in found["pymq_replication_ha_client_state"].items() if value] == [("waiting",)]
    assert not found.keys() & {
        "pymq_replication_ha_client_lag_bytes",
        "pymq_replication_ha_client_lag_seconds",
        "pymq_replication_tables_age_seconds",
    }
    assert found["pymq_replication_problems"][()] >= 1


def test_bytes_truncated_from_the_log() -> None:
    world = World()
    record = '{"start": 100, "end": 350, "message_count": 2, "time_ms": 5, "path": "x", "why": "y"}'
    directory = f"{world.config.store_path_root_dir}/divergent"
    world.files.makedirs(directory)
    world.files.open(f"{directory}/a.json", create=True).pwrite(0, record.encode())
    found = figures(world)
    names = ("truncations_total", "truncated_bytes_total", "truncated_messages_total")
    assert [found[f"pymq_replication_{name}"][()] for name in names] == [1, 250, 2]
