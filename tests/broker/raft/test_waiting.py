"""Waiting: brokers of a plain group become nodes, the master first, and none serves beside a group."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec

from pymq.broker.raft.answer_proof import REPORT
from pymq.broker.raft.founders import ASK_PERIOD_MS, encode_report
from pymq.broker.raft.founding import NodeReport
from pymq.broker.raft.members import GroupSettings, parse_peers
from pymq.broker.raft.node_directory import (
    RUN_RECORD_FILE,
    leave_group,
    role_in_plain_group,
    waits_in_plain_group,
)
from pymq.broker.raft.waiting import (
    FENCE_MS,
    FENCE_PAUSE_MS,
    TICK_MS,
    WaitingMember,
)
from pymq.broker.replication.history.epoch_history import EpochEntry, EpochHistory
from pymq.broker.replication.roles.role_file import RoleRecord
from pymq.clock import ManualClock
from pymq.config import BrokerConfig
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.wire.bodies_raft import ReportRequest
from pymq.wire.command import Command
from tests.broker.raft.groups import answer_proof

PEERS = parse_peers("n0-10.0.0.1:40911;n1-10.0.0.2:40911;n2-10.0.0.3:40911")
HISTORY = EpochHistory((EpochEntry(1, 0, "a" * 16),))
END = 5000


class Fence:
    def __init__(self) -> None:
        self.number = self.last_number = 0

    @property
    def is_on(self) -> bool:
        return self.number > 0

    def begin(self, duration_ms: int, why: str) -> None:
        if not self.is_on:
            self.last_number += 1
            self.number = self.last_number

    def end(self) -> None:
        self.number = 0


class PlainBroker:
    """A broker of the group, as its :class:`ServingParts`; ``end`` is its log's."""

    def __init__(self, group: PlainGroup, number: int) -> None:
        self.group = group
        self.node = f"n{number}"
        self.is_master = number == 0
        self.is_up = True
        self.end = END
        self.history = HISTORY
        self.write_fence: Any = Fence()
        self.tables_fence = 0
        network: Any = group
        self.waiting = WaitingMember(
            GroupSettings("shard-a", self.node, PEERS),
            config=BrokerConfig(),
            network=network,
            clock=group.clock,
            parts=lambda: None if self.waiting.has_left else self,
            become_node=self.become_node,
            answer_proof=answer_proof(),
        )

    @property
    def store(self) -> Any:
        return SimpleNamespace(
            physical_min_offset=0, physical_max_offset=self.end, tail_digest=lambda end, size: f"{self.end:x}"
        )

    def become_node(self, why: str) -> None:
        assert self.write_fence.is_on or not self.is_master, "a master that leaves takes no writes"
        assert not any(other.is_serving_master for other in self.group.brokers if other is not self), (
            "a slave leaves behind its master"
        )
        self.group.left.append(self.node)

    @property
    def is_serving_master(self) -> bool:
        return self.is_master and not self.waiting.has_left

    @property
    def report(self) -> NodeReport:
        report = self.waiting.node_report()
        if self.waiting.has_left:  # a node says so itself
            return report._replace(
                is_plain=False, is_fenced=True, is_master=self.is_master, log_end=self.end,
                history=HISTORY, tail_digest=f"{self.end:x}",
            )  # fmt: skip
        return report


class PlainGroup:
    """Three brokers, and the network between them."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.left: list[str] = []
        self.brokers = [PlainBroker(self, number) for number in range(3)]
        self.overruling: dict[str, NodeReport] = {}

    def ask(self, address: str, command: Command, on_answer: Any, timeout_ms: int) -> None:
        number = [member.address for member in PEERS].index(address)
        broker = self.brokers[number]
        if not broker.is_up:
            on_answer("the connection was refused")
            return
        report = self.overruling.get(broker.node) or broker.report
        challenge = msgspec.json.decode(command.body, type=ReportRequest).challenge
        reply = answer_proof().reply(challenge, REPORT, encode_report(report))
        on_answer(reply.to_command(command))

    def run(self, duration_ms: int) -> None:
        for _ in range(duration_ms // TICK_MS):
            self.clock.advance(TICK_MS)
            for broker in self.brokers:
                if broker.is_up:
                    broker.waiting.tick()


def test_the_master_leaves_first_once_the_slaves_have_log_and_tables() -> None:
    group = PlainGroup()
    n0, n1, n2 = group.brokers
    n1.end = n2.end = END - 10
    group.run(2 * ASK_PERIOD_MS)
    assert n0.write_fence.is_on and not group.left
    n1.end = n2.end = END
    group.run(2 * ASK_PERIOD_MS)
    assert not group.left, "the slaves know no tables of after the fence"
    n1.tables_fence = n2.tables_fence = n0.write_fence.number
    group.run(4 * ASK_PERIOD_MS)
    assert group.left[0] == "n0" and sorted(group.left) == ["n0", "n1", "n2"]


def test_a_group_that_is_not_whole_is_served_as_before() -> None:
    group = PlainGroup()
    group.brokers[2].is_up = False
    group.run(10 * ASK_PERIOD_MS)
    assert not group.brokers[0].write_fence.is_on and not group.left


def test_a_slave_that_dies_ends_the_fence_and_the_next_one_comes_later() -> None:
    group = PlainGroup()
    n0, n1, n2 = group.brokers
    group.run(2 * ASK_PERIOD_MS)
    assert n0.write_fence.is_on
    n2.is_up = False
    group.run(2 * ASK_PERIOD_MS)
    assert not n0.write_fence.is_on
    n2.is_up = True
    group.run(FENCE_MS)
    assert not n0.write_fence.is_on, "senders get on in between"
    group.run(FENCE_PAUSE_MS)
    assert n0.write_fence.is_on
    n1.tables_fence = n2.tables_fence = n0.write_fence.number
    group.run(4 * ASK_PERIOD_MS)
    assert group.left[0] == "n0" and len(group.left) == 3


def test_tables_of_an_earlier_fence_do_not_count() -> None:
    group = PlainGroup()
    n0, n1, n2 = group.brokers
    group.run(2 * ASK_PERIOD_MS)
    n0.write_fence.end()
    group.run(FENCE_PAUSE_MS)
    assert n0.write_fence.number == 2
    n1.tables_fence = n2.tables_fence = 1
    group.run(2 * ASK_PERIOD_MS)
    assert not group.left


def test_an_operator_s_fence_stays_and_counts_as_any_other() -> None:
    group = PlainGroup()
    n0, n1, n2 = group.brokers
    n0.write_fence.begin(FENCE_MS, "a promotion")
    n2.is_up = False
    group.run(2 * ASK_PERIOD_MS)
    assert n0.write_fence.is_on
    n2.is_up = True
    group.run(4 * ASK_PERIOD_MS)
    assert not group.left, "the slaves lack what changed before it"
    n1.tables_fence = n2.tables_fence = n0.write_fence.number
    group.run(4 * ASK_PERIOD_MS)
    assert group.left[0] == "n0" and len(group.left) == 3


def test_a_master_beside_a_founded_group_serves_no_more() -> None:
    group = PlainGroup()
    member = group.brokers[1].report._replace(is_plain=False, founding_id="f" * 64)
    group.overruling = {"n1": member, "n2": member}
    group.run(2 * ASK_PERIOD_MS)
    assert "n0" in group.left


# -- the directory -----------------------------------------------------------------------------------------------------


def directory(*names: str) -> MemoryFiles:
    files = MemoryFiles()
    for name in ("role.json", *names):
        path = f"/s/config/{name}"
        files.makedirs("/s/config")
        files.open(path, create=True).close()
    return files


def test_a_plain_broker_waits_and_a_node_never_does_again() -> None:
    last = RoleRecord(broker_id=0, configured_id=0)
    assert waits_in_plain_group(directory(), "/s", last)
    assert not waits_in_plain_group(directory(), "/s", None), "an empty directory"
    assert not waits_in_plain_group(directory(RUN_RECORD_FILE), "/s", last)


def test_a_node_goes_back_to_a_plain_group_in_its_configured_role() -> None:
    config = BrokerConfig(store_path_root_dir="/s", broker_id=0)
    files = directory(RUN_RECORD_FILE, "raftState.json", "raftTables.json", "topics.json")
    last = RoleRecord(broker_id=2, configured_id=0)
    record = role_in_plain_group(files, config, last)
    assert (record.broker_id, record.begins_epoch) == (0, True)
    leave_group(files, "/s")
    assert sorted(files.listdir("/s/config")) == ["role.json", "topics.json"]
    assert role_in_plain_group(files, config, last).broker_id == 2, "a promoted slave of a plain group stays one"


def test_a_waiting_broker_keeps_its_role_whatever_brokerid_is() -> None:
    config = BrokerConfig(store_path_root_dir="/s", broker_id=0, raft_enabled=True)
    assert role_in_plain_group(directory(), config, RoleRecord(broker_id=1, configured_id=1)).broker_id == 1
    assert role_in_plain_group(directory(), config, None).broker_id == 0
