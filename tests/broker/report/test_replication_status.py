"""The replication status: roles, missing messages of slaves, RocketMQ's form, figures of the runtime table."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

from pymq.broker.replication.history.epoch_history import EpochHistory
from pymq.broker.replication.roles.role import Role
from pymq.broker.replication.sync_mode import NoSlaves, SyncMode
from pymq.broker.report.replication_status import AskedForStatus, StatusReport, TruncationHistory
from pymq.wire.bodies_replication import HaClientState, SlaveState, TruncationState
from tests.broker.disk import failing
from tests.broker.world import ROOT, World


class HaService:
    """Slaves as a status shows them; each has the log up to its ack_offset."""

    def __init__(self, *slaves: SlaveState) -> None:
        self.slaves = slaves

    @property
    def in_sync_count(self) -> int:
        return sum(slave.in_sync for slave in self.slaves)

    def states(self) -> list[SlaveState]:
        return list(self.slaves)

    def offset_acked_by(self, slave_count: int) -> int:
        acked = sorted((slave.ack_offset for slave in self.slaves), reverse=True)
        return acked[slave_count - 1] if len(acked) >= slave_count else 0


class Side:
    """A side of replication in one state."""

    def __init__(self, slaves: HaService | NoSlaves, ha_client: HaClientState | None) -> None:
        self._slaves = slaves
        self._ha_client = ha_client

    def slave_states(self) -> list[SlaveState]:
        return self._slaves.states()

    def ha_client_state(self) -> HaClientState | None:
        return self._ha_client


def report_of(
    world: World,
    role: Role,
    slaves: HaService | NoSlaves | None = None,
    ha_client: HaClientState | None = None,
    truncations: TruncationHistory | None = None,
    **asked: Any,
) -> StatusReport:
    """Return the report as a broker in this role makes it."""
    slaves, store = slaves or NoSlaves(), world.parts.store
    sync_mode = SyncMode(config=world.config, store=store, role=role, slaves=slaves)
    return StatusReport(
        world.parts.runtime,
        store=store,
        role=role,
        sync_mode=sync_mode,
        side=Side(slaves, ha_client),
        truncations=truncations,
        asked=AskedForStatus(**asked),
    )


def sync_master(*slaves: SlaveState, **settings: Any) -> tuple[World, StatusReport]:
    """Return a master with one message and its report, now as a SYNC_MASTER."""
    world = World(**settings)
    world.put("orders", b"x")
    world.config.broker_role = "SYNC_MASTER"
    return world, report_of(world, Role(0), HaService(*slaves))


def test_missing_messages_are_counted_for_present_and_absent_slaves() -> None:
    world = World()
    placed = [world.put("orders", b"x", queue_id=number % 4) for number in range(10)]
    behind = SlaveState(address="a:1", ack_offset=placed[7].physical_offset, in_sync=True)
    gone = SlaveState(address="b:1", ack_offset=placed[9].physical_offset, state="gone", lag_bytes=1)
    report = report_of(world, Role(0), HaService(behind, gone))
    assert [slave.lag_messages for slave in report.status().slaves] == [3, 1]
    world.put("orders", b"y")
    after = report.status().slaves
    assert [slave.lag_messages for slave in after] == [4, 2]
    end = world.parts.store.physical_max_offset
    assert [slave.lag_bytes for slave in after] == [end - placed[7].physical_offset, end - placed[9].physical_offset]
    assert gone.lag_bytes == 1  # the HaService's own state stays
    assert [one.addr for one in report.ha_status().ha_connection_info] == ["a:1"]


def test_unreadable_queues_leave_the_rest_of_the_status() -> None:
    """The status is asked for just when a disk fails."""
    world = World()
    placed = [world.put("orders", b"x", queue_id=0) for _ in range(10)]
    world.parts.close()
    world = World(world.files, world.clock)
    report = report_of(world, Role(0), HaService(SlaveState(address="a:1", ack_offset=placed[3].physical_offset)))
    with failing(world, "pread", "consumequeue", errno.EIO):
        (slave,) = report.status().slaves
        assert slave.lag_messages == -1 and slave.lag_bytes > 0
        assert report.figures()["pymqSlaveLagMessagesMax"] == "-1"
    assert report.status().slaves[0].lag_messages == 7


def test_a_sync_master_confirms_what_enough_slaves_have() -> None:
    slaves = [SlaveState(address=f"a:{at}", ack_offset=at, in_sync=at > 10) for at in (5, 50, 70)]
    world, report = sync_master(*slaves, inSyncReplicas=3)
    status = report.status()
    assert (status.role, status.required_slaves, status.in_sync_slaves) == ("SYNC_MASTER", 2, 2)
    assert status.confirm_offset == 50 and not status.degraded
    world.config.in_sync_replicas = 4
    assert report.status().confirm_offset == 5 and not report.status().degraded
    world.config.auto_in_sync_replicas = True
    assert report.status().confirm_offset == 50 and report.status().degraded


def test_a_slave_reports_its_role_and_not_its_setting() -> None:
    world = World(brokerRole="SYNC_MASTER")
    ha_client = HaClientState(master_address="m:1", ha_address="m:2", state="following", lag_bytes=7, lag_ms=3)
    report = report_of(world, Role(2), ha_client=ha_client)
    status = report.status()
    assert (status.role, status.broker_id, status.required_slaves) == ("SLAVE", 2, 0)
    assert status.ha_client is not None and status.ha_client.state == "following"
    figures = report.figures()
    assert (figures["pymqRole"], figures["pymqLagBytes"], figures["pymqLagMs"]) == ("SLAVE", "7", "3")
    assert "pymqSlaves" not in figures


def test_rocketmq_sees_one_range_for_each_epoch() -> None:
    world = World()
    world.put("orders", b"x")
    end = world.parts.store.physical_max_offset
    history = EpochHistory().begin(0, "aa").renew(7, "bb").begin(9, "cc").begin(12, "dd").renew(15, "ee")
    cache = report_of(world, Role(2), epoch_history=lambda: history).epoch_cache()
    assert (cache.broker_name, cache.broker_id, cache.max_offset) == (world.config.broker_name, 2, end)
    ranges = [(epoch.epoch, epoch.start_offset, epoch.end_offset) for epoch in cache.epoch_list]
    assert ranges == [(1, 0, 9), (2, 9, 12), (3, 12, end)]
    assert report_of(world, Role(0)).epoch_cache().epoch_list == []


def test_epoch_history_and_troubles_are_asked_each_time() -> None:
    epoch_histories = [EpochHistory().begin(0, "aa"), EpochHistory().begin(0, "aa").begin(9, "bb")]
    troubles = ["", "another master is there"]
    report = report_of(World(), Role(0), epoch_history=lambda: epoch_histories[0], troubles=lambda: troubles)
    first = report.status()
    assert [(entry.epoch, entry.start, entry.epoch_id) for entry in first.epoch_history] == [(1, 0, "aa")]
    assert first.problem == "another master is there"
    epoch_histories.pop(0)
    troubles.pop()
    assert report.status().epoch_history[-1].epoch_id == "bb" and report.figures()["pymqEpoch"] == "2"
    assert report.status().problem == ""


def test_truncations_are_read_once_and_a_record_that_can_t_be_read_is_a_problem() -> None:
    world = World()
    state: dict[str, Any] = {
        "start": 5,
        "end": 9,
        "message_count": 1,
        "time_ms": 1,
        "path": "divergent/5.log",
        "why": "it rejoins",
    }
    raw = json.dumps(state).encode()
    put_file(world, "divergent/5.json", raw)
    report = report_of(world, Role(0), truncations=TruncationHistory(world.files, ROOT))
    expected = [TruncationState(**{**state, "path": f"{ROOT}/divergent/5.log"})]
    assert report.status().truncations == expected
    put_file(world, "divergent/6.json", b"{")
    assert report.status().truncations == expected
    broken = report_of(world, Role(0), truncations=TruncationHistory(world.files, ROOT)).status()
    assert broken.truncations == [] and "6.json" in broken.problem


def put_file(world: World, name: str, raw: bytes) -> None:
    path = f"{ROOT}/{name}"
    world.files.makedirs(path.rpartition("/")[0])
    file = world.files.open(path, create=True)
    file.pwrite(0, raw)
    file.close()


def test_rocketmq_s_shape_of_both_sides() -> None:
    slave = SlaveState(address="s:9", ack_offset=3, sent_offset=5, in_sync=True, bytes_per_second=8)
    world, report = sync_master(slave)
    end = world.parts.store.physical_max_offset
    master = report.ha_status()
    assert master.master and master.in_sync_slave_nums == 1
    (one,) = master.ha_connection_info
    assert (one.addr, one.slave_ack_offset, one.transfer_from_where, one.in_sync) == ("s:9", 3, 5, True)
    assert (one.diff, one.transferred_byte_in_second) == (end - 3, 8)
    ha_client = HaClientState(ha_address="m:2", master_log_end=90, last_heard_ms=77, bytes_per_second=6)
    mine = report_of(world, Role(1), ha_client=ha_client).ha_status()
    info = mine.ha_client_runtime_info
    assert not mine.master and (info.master_addr, info.master_flush_offset, info.last_read_timestamp) == ("m:2", 90, 77)
    assert info.max_offset == end


def test_a_master_s_figures_show_its_worst_slave() -> None:
    slaves = [SlaveState(address="a:1", ack_offset=1, lag_ms=9), SlaveState(address="b:1", lag_ms=5)]
    world, report = sync_master(*slaves)
    world.put("orders", b"x")
    end = world.parts.store.physical_max_offset
    figures = report.figures()
    assert (figures["pymqSlaves"], figures["pymqSlaveLagBytesMax"], figures["pymqSlaveLagMsMax"]) == (
        "2",
        str(end),
        "9",
    )
    assert figures["pymqRequiredSlaves"] == "1" and figures["pymqInSyncSlaves"] == "0"


def test_every_figure_is_documented() -> None:
    text = (Path(__file__).parents[3] / "docs" / "replication-operations.md").read_text(encoding="utf-8")
    ha_client = HaClientState(state="following")
    both = [*sync_master()[1].figures(), *report_of(World(), Role(1), ha_client=ha_client).figures()]
    assert not [key for key in both if f"`{key}`" not in text]


def test_a_rejected_peer_has_no_lag() -> None:
    world = World()
    world.put("orders", b"x")
    rejected = SlaveState(address="10.0.0.9:1", broker_id=3, state="refused", problem="another cluster")
    status = report_of(world, Role(0), HaService(rejected)).status()
    assert [(slave.lag_bytes, slave.lag_messages, slave.lag_ms) for slave in status.slaves] == [(-1, -1, -1)]
    assert report_of(world, Role(0), HaService(rejected)).figures()["pymqSlaves"] == "0"
