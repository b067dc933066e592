"""Founders: asks the other nodes of an unfounded group what they are, until the group can be founded or joined."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial

import msgspec

from pymq.broker.raft.answer_proof import REPORT, AnswerProof
from pymq.broker.raft.founding import Decision, NodeReport, Verdict, decide
from pymq.broker.raft.members import GroupSettings
from pymq.broker.replication.history.epoch_history import EpochHistory
from pymq.clock import Clock
from pymq.config import BrokerConfig
from pymq.model.fastjson import JsonError
from pymq.model.strict_json import decode_json
from pymq.store.store import MessageStore
from pymq.wire.bodies_raft import ReportRequest
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import Command, request
from pymq.wire.streams import Network

log = logging.getLogger(__name__)

ASK_PERIOD_MS = 500
FENCED_ASK_PERIOD_MS = 100  # while a master takes no writes
ASK_TIMEOUT_MS = 2000
TAIL_BYTES = 4096  # of a log's end, whose digests are compared


class Founders:
    """One node's view of a group that it is in no membership of. Call :meth:`tick` several times a second."""

    def __init__(
        self,
        group: GroupSettings,
        *,
        network: Network,
        clock: Clock,
        own_report: Callable[[], NodeReport],
        proof: AnswerProof,
    ) -> None:
        self._group = group
        self._network = network
        self._clock = clock
        self._own_report = own_report
        self._proof = proof
        self._reports: dict[str, NodeReport] = {}
        self._unproven: dict[str, str] = {}
        self._next_ms = clock.monotonic_ms()
        self.decision = Decision(Verdict.WAIT, "no node was asked yet")

    @property
    def may_found(self) -> bool:
        """True when this node may ask for the promises of a founding, and give its own."""
        return self.decision.verdict is Verdict.FOUND

    @property
    def reports(self) -> Mapping[str, NodeReport]:
        """What the other nodes said last, by node id."""
        return self._reports

    def forget(self) -> None:
        """Know nothing again: this node is another replica now."""
        self._reports.clear()
        self.decision = Decision(Verdict.WAIT, "no node was asked yet")

    def tick(self) -> None:
        """Ask all others when it is time, and decide with what they said last."""
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._next_ms:
            return
        own = self._own_report()
        is_fenced = any(report.fence for report in (own, *self._reports.values()))
        self._next_ms = now_ms + (FENCED_ASK_PERIOD_MS if is_fenced else ASK_PERIOD_MS)
        for member in self._group.others:
            challenge = self._proof.challenge()
            ask = request(RequestCode.PYMQ_RAFT_NODE, None, msgspec.json.encode(ReportRequest(challenge)))
            self._network.ask(member.address, ask, partial(self._answered, member.node, challenge), ASK_TIMEOUT_MS)
        decision = decide(self._group, {**self._reports, self._group.self_id: own})
        if decision.verdict is Verdict.WAIT and self._unproven:
            why = "; ".join(f"the report of {node}: {text}" for node, text in sorted(self._unproven.items()))
            decision = decision._replace(why=why)
        if decision != self.decision:
            self.decision = decision
            level = logging.ERROR if decision.verdict is Verdict.REFUSE else logging.INFO
            log.log(level, "%s of group %s: %s %s", self._group.self_id, self._group.name, decision.verdict.value,
                    decision.why)  # fmt: skip

    def _answered(self, node: str, challenge: str, answer: Command | str) -> None:
        self._reports.pop(node, None)
        self._unproven.pop(node, None)
        if isinstance(answer, str) or answer.code != ResponseCode.SUCCESS:
            return
        if why := self._proof.why_not(challenge, REPORT, answer):
            self._unproven[node] = why
            return
        try:
            self._reports[node] = decode_json(answer.body, NodeReport)
        except JsonError as error:
            log.warning("what %s says about itself can't be read: %s", node, error)


def own_report(
    config: BrokerConfig, group: GroupSettings, founding_id: str, history: EpochHistory, *, is_master: bool
) -> NodeReport:
    """Return what a node says about itself, but for its log. One that serves nothing before the founding is fenced."""
    return NodeReport(
        cluster=config.broker_cluster_name,
        group=group.name,
        peers_text=group.peers_text,
        segment_size_bytes=config.mapped_file_size_commit_log_bytes,
        founding_id=founding_id,
        history=history,
        is_master=is_master,
        is_fenced=True,
    )


def with_log(report: NodeReport, store: MessageStore) -> NodeReport:
    """Return the report with the range of an open store's log, and a digest of its end within one segment."""
    start, end = store.physical_min_offset, store.physical_max_offset
    segment = max(end - 1, 0) // report.segment_size_bytes * report.segment_size_bytes
    tail_bytes = min(TAIL_BYTES, end - max(start, segment))
    digest = store.tail_digest(end, tail_bytes) if tail_bytes else ""
    return report._replace(log_start=start, log_end=end, tail_digest=digest)


def encode_report(report: NodeReport) -> bytes:
    """Return the body of an answer to request 9122."""
    return msgspec.json.encode(report)
