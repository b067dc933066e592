"""Waiting: a broker of a plain group that has a Raft group's settings serves as before until the group can be founded.

So masters and slaves get the settings one after the other while sends go on. When all of them wait, the master takes no
writes for a moment, and each slave copies the rest. Then the master leaves the plain group for good: from its first
start as a node, which ``config/raftRun`` records, it acknowledges nothing without the group. Only when it says so do
the slaves follow. Only a node promises a founder to follow it. So while a master serves there is no group, and when
there is a group no master serves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from pymq.broker.raft.answer_proof import AnswerProof
from pymq.broker.raft.founders import Founders, own_report, with_log
from pymq.broker.raft.founding import NodeReport, Verdict
from pymq.broker.raft.members import GroupSettings
from pymq.broker.replication.history.epoch_history import EpochHistory
from pymq.broker.replication.roles.write_fence import WriteFence
from pymq.broker.work.jobs import Job
from pymq.clock import Clock
from pymq.config import BrokerConfig
from pymq.store.store import MessageStore
from pymq.wire.streams import Network

TICK_MS = 50
FENCE_MS = 5_000  # the founding is tried again after it
FENCE_PAUSE_MS = 15_000  # from the begin of one fence to that of the next: senders must get on in between
LEAVE_MS = 60_000  # a fence for the way from the plain group to the node: no write may come in between


class ServingParts(Protocol):
    """The parts of :class:`pymq.broker.assembly.parts.BrokerParts` that a waiting broker needs."""

    @property
    def is_master(self) -> bool: ...
    @property
    def store(self) -> MessageStore: ...
    @property
    def history(self) -> EpochHistory: ...
    @property
    def write_fence(self) -> WriteFence: ...
    @property
    def tables_fence(self) -> int:
        """The number of the master's write fence whose tables a slave has; 0 for none."""
        ...


class WaitingMember:
    """One broker of a plain group that is to be a node. Call :meth:`tick` every TICK_MS."""

    def __init__(
        self,
        settings: GroupSettings,
        *,
        config: BrokerConfig,
        network: Network,
        clock: Clock,
        parts: Callable[[], ServingParts | None],
        become_node: Callable[[str], None],
        answer_proof: AnswerProof,
    ) -> None:
        """``parts`` returns the present parts, None while there are none; ``become_node`` closes them after this turn,
        because of its argument, and starts the node.
        """
        self.has_left = False  # the plain group
        self._settings = settings
        self._config = config
        self._clock = clock
        self._parts = parts
        self._become_node = become_node
        self.answer_proof = answer_proof
        self._founders = Founders(
            settings, network=network, clock=clock, own_report=self.node_report, proof=answer_proof
        )
        self._fence = 0  # the number of the one that this object began last
        self._next_fence_ms = clock.monotonic_ms()

    def jobs(self) -> list[Job]:
        return [Job("founding of the Raft group", TICK_MS, self.tick)]

    def node_report(self) -> NodeReport:
        """Return what this broker says about itself to the others."""
        parts = self._parts()
        if parts is None:
            report = own_report(self._config, self._settings, "", EpochHistory(), is_master=False)
            return report._replace(is_plain=True, is_fenced=False)
        fence = parts.write_fence.number if parts.is_master else 0
        report = own_report(self._config, self._settings, "", parts.history, is_master=parts.is_master)
        return with_log(
            report._replace(
                is_plain=True,
                is_fenced=fence > 0,
                fence=fence,
                has_tables_of=parts.tables_fence,
            ),
            parts.store,
        )

    def tick(self) -> None:
        """Ask the others, and do the next step to the founding."""
        parts = self._parts()
        if parts is None or self.has_left:
            return
        self._founders.tick()
        verdict = self._founders.decision.verdict
        if verdict is Verdict.FENCE:
            self._begin_fence(parts)
        elif verdict is Verdict.JOIN:
            self._leave(parts, "the group is founded")
        elif verdict is Verdict.FOUND and (parts.is_master or not self._has_plain_master):
            if not parts.is_master or parts.write_fence.is_on:
                self._leave(parts, "all nodes have the log of the plain group")
        elif self._is_ours(parts.write_fence) and len(self._founders.reports) < len(self._settings.others):
            parts.write_fence.end()

    @property
    def _has_plain_master(self) -> bool:
        return any(report.is_plain_master for report in self._founders.reports.values())

    def _begin_fence(self, parts: ServingParts) -> None:
        now_ms = self._clock.monotonic_ms()
        if now_ms >= self._next_fence_ms and not parts.write_fence.is_on:
            self._next_fence_ms = now_ms + FENCE_PAUSE_MS
            parts.write_fence.begin(FENCE_MS, f"the Raft group {self._settings.name} is about to be founded")
            self._fence = parts.write_fence.number

    def _is_ours(self, fence: WriteFence) -> bool:
        return fence.is_on and fence.number == self._fence

    def _leave(self, parts: ServingParts, why: str) -> None:
        self.has_left = True
        if parts.is_master:
            parts.write_fence.begin(LEAVE_MS, f"this broker becomes a node of the Raft group {self._settings.name}")
        self._become_node(f"{self._settings.self_id} becomes a node of {self._settings.name}: {why}")
