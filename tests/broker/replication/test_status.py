"""The picture of replication: roles, what slaves lack, RocketMQ's shape, figures of the runtime table."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

from pymq.broker.replication.lineage import Lineage
from pymq.broker.replication.master.sync_mode import SyncMode
from pymq.broker.replication.roles.role import Role
from pymq.broker.replication.status import CutHistory, StatusReport
from pymq.wire.bodies_replication import CutState, MasterLinkState, SlaveState
from tests.broker.disk import failing
from tests.broker.world import ROOT, World


class Feeds:
    """Slaves as they are told; each has the log up to its acked offset."""

    def __init__(self, *slaves: SlaveState) -> None:
        self.slaves = slaves

    @property
    def in_sync_count(self) -> int:
        return sum(slave.in_sync for slave in self.slaves)

    def states(self) -> list[SlaveState]:
        return list(self.slaves)

    def confirmed(self, copies: int) -> int:
        acked = sorted((slave.acked_offset for slave in self.slaves), reverse=True)
        return acked[copies - 1] if len(acked) >= copies else 0


class Link:
    """A slave's link in one state."""

    def __init__(self, state: MasterLinkState) -> None:
        self._state = state

    def state(self) -> MasterLinkState:
        return self._state


def report_of(world: World, role: Role, feeds: Feeds | None = None, **more: Any) -> StatusReport:
    """As a broker in this role would put it together."""
    sync_mode = SyncMode(config=world.config, store=world.parts.store, role=role)
    sync_mode.slaves = feeds or sync_mode.slaves
    store = world.parts.store
    return StatusReport(config=world.config, store=store, role=role, sync_mode=sync_mode, feeds=feeds, **more)


def sync_master(*slaves: SlaveState, **settings: object) -> tuple[World, StatusReport]:
    """With one message, which it took before."""
    world = World(**settings)
    world.put("orders", b"x")
    world.config.broker_role = "SYNC_MASTER"
    return world, report_of(world, Role(0), Feeds(*slaves))


def test_what_slaves_lack_is_counted_by_the_queues_also_for_those_that_are_gone() -> None:
    world = World()
    placed = [world.put("orders", b"x", queue_id=number % 4) for number in range(10)]
    behind = SlaveState(address="a:1", acked_offset=placed[7].physical_offset, in_sync=True)
    gone = SlaveState(address="b:1", acked_offset=placed[9].physical_offset, state="gone", lag_bytes=1)
    report = report_of(world, Role(0), Feeds(behind, gone))
    assert [slave.lag_messages for slave in report.status().slaves] == [3, 1]
    world.put("orders", b"y")
    after = report.status().slaves
    assert [slave.lag_messages for slave in after] == [4, 2]
    end = world.parts.store.physical_max_offset
    assert [slave.lag_bytes for slave in after] == [end - placed[7].physical_offset, end - placed[9].physical_offset]
    assert gone.lag_bytes == 1  # what the feeds keep is theirs
    assert [one.addr for one in report.ha_status().ha_connection_info] == ["a:1"]


def test_queues_that_can_t_be_read_leave_the_rest_of_the_picture() -> None:
    """It is asked for just when a disk fails."""
    world = World()
    placed = [world.put("orders", b"x", queue_id=0) for _ in range(10)]
    world.parts.close()
    world = World(world.files, world.clock)
    report = report_of(world, Role(0), Feeds(SlaveState(address="a:1", acked_offset=placed[3].physical_offset)))
    with failing(world, "pread", "consumequeue", errno.EIO):
        (slave,) = report.status().slaves
        assert slave.lag_messages == -1 and slave.lag_bytes > 0
        assert report.figures()["pymqSlaveLagMessagesMax"] == "-1"
    assert report.status().slaves[0].lag_messages == 7


def test_a_sync_master_confirms_what_enough_slaves_have() -> None:
    slaves = [SlaveState(address=f"a:{at}", acked_offset=at, in_sync=at > 10) for at in (5, 50, 70)]
    world, report = sync_master(*slaves, inSyncReplicas=3)
    status = report.status()
    assert (status.role, status.required_slaves, status.in_sync_slaves) == ("SYNC_MASTER", 2, 2)
    assert status.confirmed_offset == 50 and not status.degraded
    world.config.in_sync_replicas = 4
    assert report.status().confirmed_offset == 5 and not report.status().degraded
    world.config.auto_in_sync_replicas = True
    assert report.status().confirmed_offset == 50 and report.status().degraded


def test_a_slave_is_one_whatever_its_setting_says() -> None:
    world = World(brokerRole="SYNC_MASTER")
    link = Link(MasterLinkState(master_address="m:1", ha_address="m:2", state="following", lag_bytes=7, lag_ms=3))
    report = report_of(world, Role(2), link=link)
    status = report.status()
    assert (status.role, status.broker_id, status.required_slaves) == ("SLAVE", 2, 0)
    assert status.link is not None and status.link.state == "following"
    figures = report.figures()
    assert (figures["pymqRole"], figures["pymqLagBytes"], figures["pymqLagMs"]) == ("SLAVE", "7", "3")
    assert "pymqSlaves" not in figures


def test_lineage_and_troubles_are_asked_each_time() -> None:
    lineages = [Lineage().begin(0, "aa"), Lineage().begin(0, "aa").begin(9, "bb")]
    troubles = ["", "another master is there"]
    report = report_of(World(), Role(0), lineage=lambda: lineages[0], troubles=lambda: troubles)
    first = report.status()
    assert [(reign.epoch, reign.start, reign.reign_id) for reign in first.lineage] == [(1, 0, "aa")]
    assert first.problem == "another master is there"
    lineages.pop(0)
    troubles.pop()
    assert report.status().lineage[-1].reign_id == "bb" and report.figures()["pymqEpoch"] == "2"
    assert report.status().problem == ""


def test_cuts_are_read_once_and_a_record_that_can_t_be_read_is_a_problem() -> None:
    world = World()
    state = {"start": 5, "end": 9, "message_count": 1, "time_ms": 1, "path": "diverged/5.log", "why": "it rejoins"}
    raw = json.dumps(state).encode()
    put_file(world, "diverged/5.json", raw)
    report = report_of(world, Role(0), cuts=CutHistory(world.files, ROOT))
    expected = [CutState(**state)]
    assert report.status().cuts == expected
    put_file(world, "diverged/6.json", b"{")
    assert report.status().cuts == expected
    broken = report_of(world, Role(0), cuts=CutHistory(world.files, ROOT)).status()
    assert broken.cuts == [] and "6.json" in broken.problem


def put_file(world: World, name: str, raw: bytes) -> None:
    path = f"{ROOT}/{name}"
    world.files.makedirs(path.rpartition("/")[0])
    file = world.files.open(path, create=True)
    file.pwrite(0, raw)
    file.close()


def test_rocketmq_s_shape_of_both_sides() -> None:
    slave = SlaveState(address="s:9", acked_offset=3, sent_offset=5, in_sync=True, bytes_per_second=8)
    world, report = sync_master(slave)
    end = world.parts.store.physical_max_offset
    master = report.ha_status()
    assert master.master and master.in_sync_slave_nums == 1
    (one,) = master.ha_connection_info
    assert (one.addr, one.slave_ack_offset, one.transfer_from_where, one.in_sync) == ("s:9", 3, 5, True)
    assert (one.diff, one.transferred_byte_in_second) == (end - 3, 8)
    link = Link(MasterLinkState(ha_address="m:2", master_log_end=90, last_heard_ms=77, bytes_per_second=6))
    mine = report_of(world, Role(1), link=link).ha_status()
    info = mine.ha_client_runtime_info
    assert not mine.master and (info.master_addr, info.master_flush_offset, info.last_read_timestamp) == ("m:2", 90, 77)
    assert info.max_offset == end


def test_a_master_s_figures_show_its_worst_slave() -> None:
    slaves = [SlaveState(address="a:1", acked_offset=1, lag_ms=9), SlaveState(address="b:1", lag_ms=5)]
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
    text = (Path(__file__).parents[3] / "docs" / "replication.md").read_text(encoding="utf-8")
    link = Link(MasterLinkState(state="following"))
    both = [*sync_master()[1].figures(), *report_of(World(), Role(1), link=link).figures()]
    assert not [key for key in both if f"`{key}`" not in text]


def test_who_was_sent_away_lacks_nothing_that_could_be_told() -> None:
    world = World()
    world.put("orders", b"x")
    stray = SlaveState(address="10.0.0.9:1", broker_id=3, state="refused", problem="another cluster")
    status = report_of(world, Role(0), Feeds(stray)).status()
    assert [(slave.lag_bytes, slave.lag_messages, slave.lag_ms) for slave in status.slaves] == [(-1, -1, -1)]
    assert report_of(world, Role(0), Feeds(stray)).figures()["pymqSlaves"] == "0"
