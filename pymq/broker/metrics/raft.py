"""A Raft group, as this broker's node sees it: what ``pymq raft status`` shows, for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator

from pymq.broker.assembly.parts import BrokerParts
from pymq.metrics.family import Family, Reading, counter, gauge, single, state_set
from pymq.wire.bodies_raft import LEADER, OUT_OF_DATE_BYTES, RaftGroupState, RaftMemberState

_MEMBER = ("node", "kind")

ROLE = gauge("pymq_raft_role", "1 for the role of this node.", "role")
TERM = gauge("pymq_raft_term", "Term that this node is in; each election begins one.")
HAS_LEADER = gauge("pymq_raft_has_leader", "1 while this node knows the leader of its term.")
ELECTIONS = counter("pymq_raft_elections_total", "Elections that this node began.")
LEADER_CHANGES = counter("pymq_raft_leader_changes_total", "Changes of the leader that this node saw.")
CONFIRM_LAG = gauge(
    "pymq_raft_confirm_lag_bytes", "Bytes of this node's log that it does not know to be confirmed.", unit="bytes"
)
PROBLEMS = gauge("pymq_raft_problems", "Reasons why this node does not do its part.")
REFUSED = counter("pymq_raft_refused_messages_total", "Messages of other nodes that were refused.", "reason")
VOTERS = gauge("pymq_raft_voters", "Voters in the newest membership that this node knows.")
OUT_OF_DATE = gauge(
    "pymq_raft_members_out_of_date", "Leader: members that are silent, or lack more than 1 MiB of its log."
)
MEMBER_LAG = gauge(
    "pymq_raft_member_lag_bytes", "Leader: bytes of its log that the member lacks.", *_MEMBER, unit="bytes"
)
MEMBER_SILENT = gauge(
    "pymq_raft_member_silent_seconds", "Leader: time since the member was heard.", *_MEMBER, unit="seconds"
)


class RaftMetrics:
    """The figures of a broker in a Raft group; a plain broker has none."""

    metrics = (
        *(ROLE, TERM, HAS_LEADER, ELECTIONS, LEADER_CHANGES, CONFIRM_LAG, PROBLEMS, REFUSED, VOTERS),
        *(OUT_OF_DATE, MEMBER_LAG, MEMBER_SILENT),
    )

    def __init__(self, parts: BrokerParts) -> None:
        self._parts = parts

    def collect(self) -> Iterator[Family]:
        group = self._parts.raft
        if group is None:
            return
        from pymq.broker.raft.report import group_state  # noqa: PLC0415 - a plain group's broker does without
        from pymq.raft.core import Role  # noqa: PLC0415

        state = group_state(group)
        yield state_set(ROLE, tuple(role.value for role in Role), state.role)
        yield single(TERM, state.term)
        yield single(HAS_LEADER, bool(state.leader))
        yield single(ELECTIONS, state.election_count)
        yield single(LEADER_CHANGES, state.leader_change_count)
        yield single(CONFIRM_LAG, max(0, state.log_end - state.confirm_offset))
        yield single(PROBLEMS, len(state.problems))
        yield Family(REFUSED, [Reading((reason,), count) for reason, count in group.gate.refused_count.items()])
        yield single(VOTERS, state.voter_count)
        if state.role == LEADER:
            yield from self._as_leader(state)

    def _as_leader(self, state: RaftGroupState) -> Iterator[Family]:
        others = [member for member in state.members if member.node != state.node]
        yield single(OUT_OF_DATE, sum(map(_is_out_of_date, others)))
        labels = [(member.node, member.kind) for member in others]
        lags = [float(member.lag_bytes) for member in others]
        silences = [member.silent_ms / 1000 for member in others]
        yield Family(MEMBER_LAG, list(map(Reading, labels, lags)))
        yield Family(MEMBER_SILENT, list(map(Reading, labels, silences)))


def _is_out_of_date(member: RaftMemberState) -> bool:
    return not member.is_heard or member.lag_bytes > OUT_OF_DATE_BYTES
