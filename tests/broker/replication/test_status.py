"""The picture of replication: roles, what slaves lack, RocketMQ's shape, figures of the runtime table."""

from __future__ import annotations

from pymq.broker.replication.lineage import Lineage
from pymq.broker.replication.role import Role
from pymq.broker.replication.status import StatusReport
from pymq.wire.bodies_replication import CutState, MasterLinkState, SlaveState
from tests.broker.world import World


class Feeds:
    """Slaves as they are told; each has the log up to its acked offset."""

    def __init__(self, *slaves: SlaveState) -> None:
        self.slaves = slaves
        self.in_sync_count = sum(slave.in_sync for slave in slaves)

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


def sync_master(*slaves: SlaveState, **settings: object) -> tuple[World, StatusReport]:
    world = World(brokerRole="SYNC_MASTER", **settings)
    feeds = Feeds(*slaves)
    return world, StatusReport(config=world.config, store=world.parts.store, role=Role(0), feeds=feeds)


def test_messages_that_a_slave_lacks_are_counted_by_the_queues() -> None:
    world = World()
    placed = [world.put("orders", b"x", queue_id=number % 4) for number in range(10)]
    behind = SlaveState(address="a:1", acked_offset=placed[7].physical_offset, in_sync=True)
    known = SlaveState(address="b:1", acked_offset=0, lag_messages=4)
    report = StatusReport(config=world.config, store=world.parts.store, role=Role(0), feeds=Feeds(behind, known))
    assert [slave.lag_messages for slave in report.status().slaves] == [3, 4]


def test_a_sync_master_confirms_what_enough_slaves_have() -> None:
    slaves = [SlaveState(address=f"a:{at}", acked_offset=at, in_sync=at > 10) for at in (5, 50, 70)]
    world, report = sync_master(*slaves, inSyncReplicas=3)
    status = report.status()
    assert (status.role, status.required_slaves, status.in_sync_slaves) == ("SYNC_MASTER", 2, 2)
    assert status.confirmed_offset == 50 and not status.degraded
    world.config.in_sync_replicas = 4
    assert report.status().degraded and report.status().confirmed_offset == 5


def test_a_slave_is_one_whatever_its_setting_says() -> None:
    world = World(brokerRole="SYNC_MASTER")
    link = Link(MasterLinkState(master_address="m:1", ha_address="m:2", state="following", lag_bytes=7, lag_ms=3))
    report = StatusReport(config=world.config, store=world.parts.store, role=Role(2), link=link)
    status = report.status()
    assert (status.role, status.broker_id, status.required_slaves) == ("SLAVE", 2, 0)
    assert status.link is not None and status.link.state == "following"
    figures = report.figures()
    assert (figures["pymqRole"], figures["pymqLagBytes"], figures["pymqLagMs"]) == ("SLAVE", "7", "3")
    assert "pymqSlaves" not in figures


def test_lineage_cuts_and_trouble_are_asked_each_time() -> None:
    world = World()
    lineages = [Lineage().begin(0, "aa"), Lineage().begin(0, "aa").begin(9, "bb")]
    cut = CutState(start=5, end=9, message_count=1, time_ms=1, path="diverged/5")
    report = StatusReport(
        config=world.config,
        store=world.parts.store,
        role=Role(0),
        lineage=lambda: lineages[0],
        cuts=lambda: [cut],
        trouble=lambda: "the disk is slow",
    )
    first = report.status()
    assert [(reign.epoch, reign.start, reign.reign_id) for reign in first.lineage] == [(1, 0, "aa")]
    assert first.cuts == [cut] and first.problem == "the disk is slow"
    lineages.pop(0)
    assert report.status().lineage[-1].reign_id == "bb" and report.figures()["pymqEpoch"] == "2"


def test_rocketmq_s_shape_of_both_sides() -> None:
    slave = SlaveState(address="s:9", acked_offset=3, sent_offset=5, lag_bytes=4, in_sync=True, bytes_per_second=8)
    world, report = sync_master(slave)
    master = report.ha_status()
    assert master.master and master.in_sync_slave_nums == 1
    (one,) = master.ha_connection_info
    assert (one.addr, one.slave_ack_offset, one.transfer_from_where, one.diff, one.in_sync) == ("s:9", 3, 5, 4, True)
    assert one.transferred_byte_in_second == 8
    link = Link(MasterLinkState(ha_address="m:2", master_log_end=90, last_heard_ms=77, bytes_per_second=6))
    mine = StatusReport(config=world.config, store=world.parts.store, role=Role(1), link=link).ha_status()
    info = mine.ha_client_runtime_info
    assert not mine.master and (info.master_addr, info.master_flush_offset, info.last_read_timestamp) == ("m:2", 90, 77)
    assert info.max_offset == world.parts.store.physical_max_offset


def test_a_master_s_figures_show_its_worst_slave() -> None:
    slaves = [SlaveState(address="a:1", lag_bytes=2, lag_ms=9, lag_messages=1), SlaveState(address="b:1", lag_bytes=5)]
    _, report = sync_master(*slaves)
    figures = report.figures()
    assert (figures["pymqSlaves"], figures["pymqSlaveLagBytesMax"], figures["pymqSlaveLagMsMax"]) == ("2", "5", "9")
    assert figures["pymqRequiredSlaves"] == "1" and figures["pymqInSyncSlaves"] == "0"
