"""A Raft group of one real node without a disk or a network, as administration sees it."""

from __future__ import annotations

import random

from pymq.broker.raft.answer_proof import AnswerProof
from pymq.broker.raft.gate import MessageGate
from pymq.broker.raft.leader_watch import LeaderWatch
from pymq.broker.raft.members import GroupSettings, Member
from pymq.broker.raft.secret_file import Secrets
from pymq.clock import ManualClock
from pymq.raft.node import RaftNode
from pymq.raft.state import Membership

SECRETS = Secrets(bytes(range(32)))


def answer_proof(secrets: Secrets = SECRETS) -> AnswerProof:
    """Return what proves the answers of a member of ``shard-a``."""
    return AnswerProof("DefaultCluster", "shard-a", lambda: secrets, random.Random(1))


MEMBERS = tuple(Member(f"n{number}", "10.0.0.1", 10911 + 10 * number) for number in range(3))


class OneNode:
    """A :class:`pymq.broker.raft.report.OperatedGroup` around a core; ``trouble`` is its only problem."""

    def __init__(self, raft: RaftNode, clock: ManualClock | None = None) -> None:
        self.settings = GroupSettings("shard-a", raft.replica.node_id, MEMBERS)
        self.node = raft
        self.gate = MessageGate(
            cluster="east", group="shard-a", node_id="n0", secrets=lambda: SECRETS, rng=random.Random(1)
        )
        self.watch = LeaderWatch(self.settings, clock or ManualClock())
        self.watch.look(raft)
        self.trouble = ""

    def problems(self) -> list[str]:
        return [self.trouble] if self.trouble else []

    def transfer(self, node_id: str) -> None:
        self.node.transfer(node_id)

    def change(self, membership: Membership) -> None:
        self.node.propose(self.node.log.end + 5, membership)
