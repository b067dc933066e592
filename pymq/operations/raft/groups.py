"""Views of Raft groups: what every node says, put together for ``pymq raft``, ``pymq check raft`` and
``pymq cluster shards``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec.structs import asdict

from pymq.client.admin import Admin
from pymq.errors import NotFoundError, UnreachableError
from pymq.model.route import MASTER_ID
from pymq.operations.replica_view import BrokerView, ask, brokers, named, why_none_answered
from pymq.units import format_duration_ms
from pymq.wire.bodies_raft import LEADER, OUT_OF_DATE_BYTES, RECENT_MS, VOTER, RaftGroupState, RaftMemberState

FLAPPING_TERMS_MIN = 5  # in RECENT_MS: fewer are machines that died, or were restarted one by one


@dataclass(frozen=True, slots=True)
class Answer:
    """A broker of a group, and what its node says; None for one that does not answer."""

    view: BrokerView
    state: RaftGroupState | None


@dataclass(frozen=True, slots=True)
class GroupView:
    """A Raft group. ``leader`` is the one of the newest term, None when no node that answers leads."""

    cluster: str
    name: str
    answers: tuple[Answer, ...]

    @property
    def states(self) -> list[RaftGroupState]:
        return [answer.state for answer in self.answers if answer.state is not None]

    @property
    def leaders(self) -> list[Answer]:
        """All that say they lead, the newest term first. One of an older term does not know yet that it is deposed."""
        leading = [
            (answer.state.term, answer) for answer in self.answers if answer.state and answer.state.role == LEADER
        ]
        return [answer for _, answer in sorted(leading, key=lambda pair: -pair[0])]

    @property
    def leader(self) -> Answer | None:
        return self.leaders[0] if self.leaders else None

    @property
    def leading(self) -> RaftGroupState | None:
        """The leader's own view of the group."""
        return self.leader.state if self.leader is not None else None

    @property
    def newest(self) -> RaftGroupState | None:
        """The leader's view, or without one that of the node with the newest term."""
        return self.leading or max(self.states, key=lambda state: (state.term, state.log_end), default=None)

    @property
    def members(self) -> list[RaftMemberState]:
        return self.newest.members if self.newest is not None else []

    @property
    def voters_count(self) -> int:
        return self.newest.voter_count if self.newest is not None else 0

    @property
    def majority_count(self) -> int:
        return self.newest.majority_count if self.newest is not None else 0

    @property
    def heard_voters_count(self) -> int:
        """How many voters the leader hears; without a leader, how many answer this command."""
        voters = [member for member in self.members if member.kind == VOTER]
        if self.leading is not None:
            return sum(member.is_heard for member in voters)
        return sum(self.answer_of(member.node) is not None for member in voters)

    def answer_of(self, node: str) -> Answer | None:
        """Return the answer of a node; None when it gave none."""
        return next((answer for answer in self.answers if answer.state and answer.state.node == node), None)

    def address_of(self, node: str) -> str:
        """Return where a node takes requests: what answered as this node, else the address in dLegerPeers."""
        answer = self.answer_of(node)
        if answer is not None:
            return answer.view.address
        return next((member.address for member in self.members if member.node == node), "")

    def need_leader(self) -> tuple[Answer, RaftGroupState]:
        """Return the leader and its state. Raises UnreachableError without one."""
        if self.leader is None or self.leading is None:
            raise UnreachableError(
                f"{self.name} has no leader now: {self.heard_voters_count} of {self.voters_count} voters answer, "
                f"{self.majority_count} are a majority; start the others, and see pymq raft status {self.name}"
            )
        return self.leader, self.leading


async def raft_groups(admin: Admin, name: str | None) -> list[GroupView]:
    """Return all Raft groups, or the one of a name or of the broker at "host:port", sorted.

    Members that are not registered are asked, too. Raises NotFoundError for a name without a Raft group;
    UnreachableError when no group is found and a broker does not answer, RefusedError when it refuses.
    """
    views = await ask(admin, await brokers(admin) if name is None else await named(admin, name))
    groups = []
    for key in sorted({(view.cluster, view.name) for view in views if view.status is not None and view.status.raft}):
        found = [view for view in views if (view.cluster, view.name) == key]
        groups.append(await _whole_group(admin, key, found))
    if not groups and any(view.status is None for view in views):
        raise why_none_answered(views)
    if name is not None and not groups:
        raise NotFoundError(f"{name} is in no Raft group: pymq cluster shards shows which brokers are")
    return groups


async def raft_group(admin: Admin, name: str) -> GroupView:
    """Return the Raft group of a name, or of the broker at "host:port". Raises as :func:`raft_groups` does."""
    return (await raft_groups(admin, name))[0]


async def _whole_group(admin: Admin, key: tuple[str, str], views: Sequence[BrokerView]) -> GroupView:
    """Ask the members that no name server lists, by their addresses in dLegerPeers."""
    known = {view.address for view in views}
    group = GroupView(*key, tuple(_answers(views)))
    known |= {state.address for view in views if (state := view.status) is not None}
    nodes = {state.node for state in group.states}
    more = {member.address: member.node for member in group.members if member.node not in nodes and member.address}
    unseen = [BrokerView(*key, MASTER_ID, address) for address in more if address not in known]
    asked = await ask(admin, unseen)
    return GroupView(*key, tuple(_answers([*views, *asked])))


def group_of(views: Sequence[BrokerView]) -> GroupView | None:
    """Return the Raft group of brokers of one name that were asked; None when none of them says that it is in one."""
    in_one = any(view.status is not None and view.status.raft is not None for view in views)
    return GroupView(views[0].cluster, views[0].name, tuple(_answers(views))) if in_one else None


def _answers(views: Iterable[BrokerView]) -> Iterable[Answer]:
    for view in views:
        yield Answer(view, view.status.raft if view.status is not None else None)


# -- records -----------------------------------------------------------------------------------------------------------


def group_record(group: GroupView) -> dict[str, Any]:
    """Return a group as plain values."""
    newest, leading = group.newest, group.leading
    assert newest is not None, "a group is what a node that answers is in"
    return {
        "cluster": group.cluster,
        "broker": group.name,
        "leader": leading.node if leading else None,
        "leader_address": group.leader.view.address if group.leader else None,
        "term": newest.term,
        "is_founded": newest.is_founded,
        "is_changing": newest.is_changing,
        "transfer_target": newest.transfer_target or None,
        "log_end": leading.log_end if leading else None,
        "confirm_offset": max(state.confirm_offset for state in group.states),
        "voters": group.voters_count,
        "heard_voters": group.heard_voters_count,
        "majority": group.majority_count,
        "candidates": newest.candidates,
        "last_change": asdict(newest.last_change) if newest.last_change else None,
        "members": [_member_record(group, node) for node in _nodes(group)],
        "problems": problems_of_group(group),
    }


def _nodes(group: GroupView) -> list[str]:
    """Return all node ids in the order of their numbers: of members, and of nodes that answer and are none."""
    nodes = {member.node for member in group.members} | {state.node for state in group.states}
    return sorted(nodes, key=lambda node: int(node[1:]))


def _member_record(group: GroupView, node: str) -> dict[str, Any]:
    answer = group.answer_of(node)
    state = answer.state if answer is not None else None
    member = next((member for member in group.members if member.node == node), None)
    leading = group.leading
    is_seen = leading is not None and member is not None
    return {
        "node": node,
        "broker_id": answer.view.broker_id if answer is not None else None,
        "address": group.address_of(node) or None,
        "kind": member.kind if member is not None else None,
        "role": state.role if state is not None else None,
        "term": state.term if state is not None else None,
        "disk_id": state.disk_id if state is not None else member.disk_id if member is not None else None,
        "log_end": state.log_end if state is not None else None,
        "confirm_offset": state.confirm_offset if state is not None else None,
        "match_end": member.match_end if is_seen and member else None,
        "lag_bytes": member.lag_bytes if is_seen and member else None,
        "silent_ms": member.silent_ms if is_seen and member else None,
        "elections": state.election_count if state is not None else None,
        "problem": _problem_of(group, node, member, state),
    }


def _problem_of(group: GroupView, node: str, member: RaftMemberState | None, state: RaftGroupState | None) -> str:
    if state is None:
        address = group.address_of(node)
        errors = [answer.view.error for answer in group.answers if answer.view.address == address]
        return next((error for error in errors if error), "it does not answer")
    if state.problems:
        return "; ".join(state.problems)
    if member is None:
        return _why_no_member(group, state)
    if group.leading is None or node == group.leading.node:
        return ""
    if not member.is_heard:
        return "the leader does not hear it"
    if member.needs_snapshot:
        return "it lacks more than the leader's log has: it copies a snapshot"
    return "out of date" if member.lag_bytes > OUT_OF_DATE_BYTES else ""


def _why_no_member(group: GroupView, state: RaftGroupState) -> str:
    if group.newest is not None and state.node in group.newest.candidates:
        return "it is no member: pymq raft add adds it"
    if state.is_founded:
        return "it is no member any more: stop it; with an empty directory it can be added again"
    return "its group is not founded yet"


def problems_of_group(group: GroupView) -> list[str]:
    """Return what an operator should know of the group as a whole."""
    newest = group.newest
    assert newest is not None
    found = []
    if not newest.is_founded:
        found.append("the group is not founded yet: all nodes of dLegerPeers must run once")
    elif group.leading is None:
        answering = f"{group.heard_voters_count} of {group.voters_count} voters answer"
        found.append(f"no leader: {answering}, {group.majority_count} are a majority")
    elif group.heard_voters_count <= group.majority_count < group.voters_count:
        found.append(
            f"{group.heard_voters_count} of {group.voters_count} voters answer: one failure more stops all writes"
        )
    terms = max(state.recent_term_count for state in group.states)
    if terms >= FLAPPING_TERMS_MIN:
        timeouts = _numbers(state.election_timeout_ms for state in group.states)
        found.append(
            f"the leader flaps: {terms} terms began within {format_duration_ms(RECENT_MS)} because it was missed. "
            f"Where machines or the network pause for longer than raftElectionTimeout ({timeouts} ms), make it longer "
            "on all members"
        )
    found += _differing_timeouts(group)
    others = [answer.state.node for answer in group.leaders[1:] if answer.state and answer.state.term == newest.term]
    if others:
        found.append(f"{', '.join(others)} lead term {newest.term} as well: report this as a bug")
    if newest.is_founded and newest.voter_count % 2 == 0:
        found.append(
            f"{newest.voter_count} voters stand no more failures than {newest.voter_count - 1}: add or remove one"
        )
    return found


def _differing_timeouts(group: GroupView) -> list[str]:
    timeouts = {state.node: state.election_timeout_ms for state in group.states}
    if len(set(timeouts.values())) < 2:
        return []
    shown = ", ".join(f"{node} {timeouts[node]} ms" for node in sorted(timeouts))
    return [f"the members have different raftElectionTimeout, and the shortest elects first ({shown}): set one on all"]


def _numbers(values: Iterable[int]) -> str:
    return " or ".join(str(value) for value in sorted(set(values)))
