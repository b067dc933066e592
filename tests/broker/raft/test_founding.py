"""Founding: a fresh group, one from a master with slaves, and nodes that lost their disk or come too late."""

from __future__ import annotations

import random

import pytest

from pymq.broker.raft.founding import (
    FENCE_LAG_BYTES_MAX,
    Decision,
    LastStop,
    NodeReport,
    Start,
    Verdict,
    decide,
    epochs_of,
    start_of,
    why_lost,
)
from pymq.broker.raft.members import GroupSettings, parse_peers
from pymq.broker.replication.history.epoch_history import EpochEntry, EpochHistory, common_point
from pymq.model.epochs import EPOCH_JUMP_MAX
from pymq.raft.state import Epoch, Kind, Membership, MembershipEntry, RaftState, Replica

PEERS = "n0-10.0.0.1:40911;n1-10.0.0.2:40911;n2-10.0.0.3:40911"
HISTORY = EpochHistory((EpochEntry(1, 0, "a" * 16), EpochEntry(3, 4096, "c" * 16)))
BLANK = NodeReport("c", "shard-a", PEERS, 1 << 30)
SLAVE = BLANK._replace(log_end=10_000_000, history=HISTORY, tail_digest="dd")
MASTER = SLAVE._replace(is_master=True, is_fenced=True)
MEMBER = SLAVE._replace(founding_id="f" * 64)


def settings(self_id: str) -> GroupSettings:
    return GroupSettings("shard-a", self_id, parse_peers(PEERS))


def decided(*reports: NodeReport | None, self_id: str = "n0", outside_master: str = "") -> Decision:
    found = {f"n{number}": report for number, report in enumerate(reports) if report is not None}
    return decide(settings(self_id), found, outside_master=outside_master)


def founds(*reports: NodeReport) -> bool:
    """Return whether every node comes to the same end: that the group is founded."""
    verdicts = {decided(*reports, self_id=f"n{number}").verdict for number in range(len(reports))}
    assert len(verdicts) == 1
    return verdicts == {Verdict.FOUND}


def waits(decision: Decision, part: str) -> None:
    assert decision.verdict is Verdict.WAIT and part in decision.why, decision


def refuses(decision: Decision, part: str) -> None:
    assert decision.verdict is Verdict.REFUSE and part in decision.why, decision


# -- a node at its start -----------------------------------------------------------------------------------------------

N0, N1 = Replica("n0", "00aa"), Replica("n1", "11bb")


def test_a_new_disk_is_in_no_group() -> None:
    assert start_of(RaftState(N0)) is Start.UNFOUNDED


def test_a_replica_that_its_group_knows_is_a_member() -> None:
    first = MembershipEntry(0, Membership(((N0, Kind.VOTER), (N1, Kind.VOTER))))
    assert start_of(RaftState(N0, memberships=(first,))) is Start.MEMBER


def test_a_node_with_a_new_disk_id_for_its_log_joins() -> None:
    first = MembershipEntry(0, Membership(((N0, Kind.VOTER), (N1, Kind.VOTER))))
    assert start_of(RaftState(Replica("n0", "ffff"), memberships=(first,))) is Start.JOINS


def test_a_removed_replica_joins() -> None:
    entries = (MembershipEntry(0, Membership(((N0, Kind.VOTER),))), MembershipEntry(9, Membership(((N1, Kind.VOTER),))))
    assert start_of(RaftState(N0, memberships=entries)) is Start.JOINS


@pytest.mark.parametrize(
    ("stop", "part"),
    [
        (LastStop(was_clean=True, was_synced=False, is_same_boot=False), ""),
        (LastStop(was_clean=False, was_synced=True, is_same_boot=False), ""),
        (LastStop(was_clean=False, was_synced=False, is_same_boot=True), ""),
        (
            LastStop(was_clean=False, was_synced=False, is_same_boot=False),
            "with flushDiskType=ASYNC_FLUSH",
        ),
        (LastStop(was_clean=True, was_synced=True, is_same_boot=True, has_lost=True), "its disk has lost"),
    ],
)
def test_only_a_power_loss_or_a_repair_takes_acknowledged_bytes(stop: LastStop, part: str) -> None:
    assert bool(why_lost(stop)) is bool(part) and part in why_lost(stop)


# -- a fresh group -----------------------------------------------------------------------------------------------------


def test_empty_nodes_found_a_group_when_all_have_answered() -> None:
    assert founds(BLANK, BLANK, BLANK)
    waits(decided(BLANK, BLANK, None), "no answer from n2 at 10.0.0.3:40911: a group is founded once")


def test_a_majority_of_empty_disks_founds_no_second_group() -> None:
    """n0 and n1 lost their disks, n2 has the log of the group."""
    assert decided(BLANK, BLANK, MEMBER).verdict is Verdict.JOIN
    waits(decided(BLANK, BLANK, None), "may have been in it")


@pytest.mark.parametrize(
    ("other", "part"),
    [
        (BLANK._replace(cluster="d"), "brokerClusterName is d on n1 and c on n0: make them equal"),
        (BLANK._replace(group="shard-b"), "dLegerGroup is shard-b on n1 and shard-a on n0"),
        (BLANK._replace(peers_text=PEERS[:-2]), "dLegerPeers is n0-10.0.0.1:40911;n1-"),
        (BLANK._replace(segment_size_bytes=1 << 20), "mappedFileSizeCommitLog is 1048576 on n1 and 1073741824 on n0"),
    ],
)
def test_nodes_that_disagree_found_nothing(other: NodeReport, part: str) -> None:
    refuses(decided(BLANK, other, BLANK), part)
    refuses(decided(BLANK, other, None), part)


# -- a founded group ---------------------------------------------------------------------------------------------------


def test_an_empty_node_joins_the_group_of_the_others() -> None:
    assert decided(BLANK, MEMBER, MEMBER) == decided(BLANK, MEMBER, None) == Decision(Verdict.JOIN)


def test_a_late_slave_joins_with_what_is_the_group_s() -> None:
    assert decided(SLAVE, MEMBER, None) == Decision(Verdict.JOIN, truncate_to=10_000_000)
    other = EpochHistory((HISTORY.entries[0], EpochEntry(2, 2000, "b" * 16)))
    assert decided(SLAVE._replace(history=other), MEMBER, None) == Decision(Verdict.JOIN, truncate_to=2000)


def test_another_log_does_not_join_whatever_its_numbers_are() -> None:
    same_numbers = EpochHistory(tuple(EpochEntry(entry.epoch, entry.start, "9" * 16) for entry in HISTORY.entries))
    refuses(decided(SLAVE._replace(history=same_numbers), MEMBER, None), "has no epoch in common with that of n1")
    refuses(decided(SLAVE._replace(history=EpochHistory()), MEMBER, None), "start it with an empty one")
    begun = MEMBER._replace(log_start=9000)
    early = EpochHistory((HISTORY.entries[0], EpochEntry(2, 2000, "b" * 16)))
    refuses(decided(SLAVE._replace(history=early), begun, None), "(9000 to 10000000)")


def test_two_groups_of_one_name_are_not_joined() -> None:
    refuses(
        decided(BLANK, MEMBER, MEMBER._replace(founding_id="e" * 64)), "n1 in ffffffffffffffff, n2 in eeeeeeeeeeeeeeee"
    )


# -- from a master and slaves ------------------------------------------------------------------------------------------


def test_a_fenced_master_and_slaves_with_its_log_found_a_group() -> None:
    assert founds(MASTER, SLAVE, SLAVE)
    assert founds(SLAVE, MASTER, SLAVE)


def test_the_master_fences_itself_when_the_slaves_are_close() -> None:
    running = MASTER._replace(is_fenced=False)
    close = SLAVE._replace(log_end=SLAVE.log_end - FENCE_LAG_BYTES_MAX)
    assert decided(running, close, SLAVE).verdict is Verdict.FENCE
    waits(decided(running, close, SLAVE, self_id="n1"), "n0 still takes writes")
    far = SLAVE._replace(log_end=SLAVE.log_end - FENCE_LAG_BYTES_MAX - 1)
    waits(decided(running, far, SLAVE), f"n1 lacks {FENCE_LAG_BYTES_MAX + 1} bytes of the log of n0")
    waits(decided(MASTER, close, SLAVE), f"n1 lacks {FENCE_LAG_BYTES_MAX} bytes of the log of n0: it catches up")


def test_plain_slaves_have_the_tables_of_the_master_s_present_fence() -> None:
    master, slave = MASTER._replace(is_plain=True, fence=7), SLAVE._replace(is_plain=True, has_tables_of=7)
    assert founds(master, slave, slave)
    for fence in (0, 6, 8, -7, 2**63):
        waits(decided(master, slave._replace(has_tables_of=fence), slave), "n1 copies topics, groups and offsets of n0")
    # A slave that says to have a fence of its own changes nothing.
    assert founds(master, slave._replace(fence=9), slave)
    waits(decided(master, slave._replace(fence=9, has_tables_of=9), slave), "n1 copies topics")


def test_only_the_old_master_s_log_founds_the_group() -> None:
    refuses(decided(SLAVE, SLAVE, SLAVE), "none of the nodes with a log (n0, n1, n2) was the master of shard-a")
    refuses(decided(MASTER, MASTER, SLAVE), "n0 and n1 of the nodes with a log")
    assert decided(BLANK._replace(is_master=True), MASTER, SLAVE).verdict is Verdict.WAIT, "an empty master is none"


def test_a_slave_of_a_newer_master_is_promoted_first() -> None:
    newer = EpochHistory((*HISTORY.entries, EpochEntry(4, 9_000_000, "d" * 16)))
    refuses(
        decided(MASTER, SLAVE._replace(history=newer), SLAVE),
        "n1 has followed a master of epoch 4, n0 is one of epoch 3: its log may lack acknowledged messages; promote n1",
    )


def test_a_master_outside_of_the_members_is_found() -> None:
    refuses(
        decided(MASTER, SLAVE, SLAVE, outside_master="10.0.0.9:10911"),
        "the broker at 10.0.0.9:10911 is the master of shard-a and not in dLegerPeers: promote one of n0, n1, n2",
    )


def test_a_slave_without_a_log_copies_it_first() -> None:
    waits(decided(MASTER, BLANK, SLAVE), "n1 has no log yet: it copies the one of n0 first (haFullSync=true)")


def test_a_slave_with_a_part_of_the_log_copies_it_first() -> None:
    part = SLAVE._replace(log_start=4096)
    waits(decided(MASTER, part, SLAVE), "the log of n1 begins at 4096, the one of n0 at 0: it lacks messages")
    assert founds(MASTER._replace(log_start=8192), part, SLAVE)


def test_a_divergent_tail_is_truncated_first() -> None:
    split = EpochHistory((HISTORY.entries[0], EpochEntry(3, 4096, "9" * 16)))
    waits(
        decided(MASTER, SLAVE._replace(history=split), SLAVE), "equals the one of n0 up to 4096: it truncates the rest"
    )
    longer = SLAVE._replace(log_end=MASTER.log_end + 1)
    waits(
        decided(MASTER, longer, SLAVE), f"ends at {MASTER.log_end + 1} and equals the one of n0 up to {MASTER.log_end}"
    )


def test_another_log_founds_nothing() -> None:
    foreign = EpochHistory((EpochEntry(1, 0, "9" * 16),))
    refuses(decided(MASTER, SLAVE._replace(history=foreign), SLAVE), "shares no epoch with the one of n0")
    refuses(decided(MASTER, SLAVE._replace(tail_digest="ee"), SLAVE), "digest ee on n1, dd on n0")
    jumping = EpochHistory((EpochEntry(EPOCH_JUMP_MAX + 1, 0, "9" * 16),))
    refuses(decided(MASTER, SLAVE._replace(history=jumping), SLAVE), "the epoch history of n1 can't be true")


def test_what_needs_an_operator_is_named_first() -> None:
    foreign = EpochHistory((EpochEntry(1, 0, "9" * 16),))
    refuses(decided(MASTER, BLANK, SLAVE._replace(history=foreign)), "the log of n2 shares no epoch")


def test_logs_without_a_history_are_compared_by_their_bytes() -> None:
    """A group that RocketMQ wrote, and no PyMQ master has led yet."""
    old = EpochHistory()
    nodes = [MASTER._replace(history=old), SLAVE._replace(history=old), SLAVE._replace(history=old)]
    assert founds(*nodes)
    refuses(decided(nodes[0], nodes[1]._replace(tail_digest="ee"), nodes[2]), "digest ee on n1")


def test_epochs_of_a_plain_group_become_raft_epochs() -> None:
    entries = (EpochEntry(1, 0, "a"), EpochEntry(1, 50, "b"), EpochEntry(3, 90, "+c"), EpochEntry(3, 95, "d"))
    assert epochs_of(EpochHistory(entries)) == (Epoch(1, 0), Epoch(3, 90))
    assert epochs_of(EpochHistory()) == ()


# -- any plain group ---------------------------------------------------------------------------------------------------


class PlainNode:
    """A broker of a plain group: bytes, who wrote them, and the role."""

    def __init__(self) -> None:
        self.data = b""
        self.history = EpochHistory()
        self.is_master = False

    def lead(self, rng: random.Random) -> None:
        self.is_master = True
        self.history = self.history.begin(len(self.data), f"{rng.getrandbits(64):016x}")

    def follow(self, master: PlainNode, end: int) -> None:
        """Truncate what diverges, then copy up to ``end``."""
        self.is_master = False
        common = common_point(master.history, len(master.data), self.history, len(self.data))
        if self.data and not common.is_known:
            return
        begin = common.offset if self.data else 0
        self.data = self.data[:begin] + master.data[begin : max(begin, end)]
        self.history = master.history.truncate(len(self.data))

    @property
    def report(self) -> NodeReport:
        return BLANK._replace(
            log_end=len(self.data),
            history=self.history,
            tail_digest=self.data[-4:].hex(),
            is_master=self.is_master,
            is_fenced=True,
        )


def test_whatever_a_plain_group_went_through_only_equal_logs_found_a_group() -> None:
    """Masters out of contact with each other get one number; slaves follow one or the other, and lag."""
    founded = 0
    for seed in range(200):
        rng = random.Random(seed)
        nodes = [PlainNode() for _ in range(3)]
        nodes[0].lead(rng)
        for _ in range(rng.randrange(3, 14)):
            node = rng.choice(nodes)
            masters = [each for each in nodes if each.is_master and each is not node]
            if node.is_master and rng.random() < 0.6:
                node.data += rng.randbytes(rng.randrange(1, 9))
            elif not node.is_master and rng.random() < 0.2:
                node.lead(rng)
            elif masters:
                master = rng.choice(masters)
                node.follow(master, rng.choice([len(master.data), rng.randrange(len(master.data) + 1)]))
        reports = [node.report for node in nodes]
        if founds(*reports) and nodes[0].data:
            founded += 1
            assert len({node.data for node in nodes}) == 1
    assert founded >= 5
