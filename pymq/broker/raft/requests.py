"""What an operator asks of a Raft group (9130): which membership follows, and when it is refused."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from pymq.broker.raft.report import OperatedGroup, group_state
from pymq.errors import RaftRefusedError, Refusal, StoreError
from pymq.raft.state import Kind, Membership, Replica
from pymq.wire.bodies_raft import ADD, TRANSFER, RaftGroupState, RaftRequest
from pymq.wire.codes import ResponseCode

log = logging.getLogger(__name__)


def follow(group: OperatedGroup, request: RaftRequest, asker: str) -> RaftGroupState:
    """Do what the request asks, and return the group's state right afterwards. Raises Refusal; then nothing changed.

    The change itself goes on: a transfer needs an answer of its target, a membership a majority.
    """
    _check_leader(group, request)
    node = group.node
    log.warning("Raft group %s: %s %s, as %s asks", group.settings.name, request.action, request.node, asker)
    try:
        if request.action == TRANSFER:
            group.transfer(request.node)
        else:
            assert node.leadership is not None
            group.change(wanted_membership(node.membership, node.leadership.introduced, request))
    except RaftRefusedError as error:
        raise _refusal(str(error)) from error
    except StoreError as error:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"the membership can't be written: {error}") from error
    return group_state(group)


def wanted_membership(membership: Membership, introduced: Mapping[str, Replica], request: RaftRequest) -> Membership:
    """Return the membership that the request asks for. Raises RaftRefusedError.

    ``introduced``: node id -> the replica that introduced itself to the leader and is no member.
    """
    if request.action == ADD:
        return _with(membership, introduced, request)
    replica = membership.replica_of(request.node)
    if replica is None:
        raise RaftRefusedError(f"{request.node} is no member; members are {_names(membership)}")
    if membership.voters == {replica}:
        raise RaftRefusedError(f"{request.node} is the only voter: a group without one can't go on")
    return membership.without(replica)


def _with(membership: Membership, introduced: Mapping[str, Replica], request: RaftRequest) -> Membership:
    node, wanted = request.node, Kind.OBSERVER if request.as_observer else Kind.LEARNER
    replica = membership.replica_of(node)
    if replica is not None:
        kind = membership.kind_of(replica)
        if kind is wanted or (kind is Kind.VOTER and not request.as_observer):
            later = ": it becomes a voter when it has the log" if kind is Kind.LEARNER else ""
            raise RaftRefusedError(f"{node} is in the group already, as {kind.value}{later}")
        if membership.voters == {replica}:
            raise RaftRefusedError(f"{node} is the only voter: a group without one can't go on")
        return membership.with_member(replica, wanted)
    replica = introduced.get(node)
    if replica is None:
        known = ", ".join(sorted(introduced)) or "none"
        raise RaftRefusedError(
            f"{node} has not introduced itself to the leader; those that have are {known}: name {node} in dLegerPeers "
            "on every node, start it, and try again"
        )
    return membership.with_member(replica, wanted)


def _check_leader(group: OperatedGroup, request: RaftRequest) -> None:
    node, name = group.node, group.settings.name
    if node.leadership is None:
        leader = node.leader.node_id if node.leader is not None else ""
        addresses = {member.node: member.address for member in group.settings.members}
        where = f"{leader} at {addresses.get(leader, '-')} does: ask it" if leader else "no leader is known: try again"
        raise _refusal(f"{node.replica.node_id} does not lead {name}; {where}")
    if request.term != node.term:
        raise _refusal(
            f"term {request.term}: {node.replica.node_id} leads {name} in term {node.term}; look at pymq raft status "
            f"{name}, and try again"
        )


def _names(membership: Membership) -> str:
    return ", ".join(sorted(replica.node_id for replica in membership.replicas)) or "none"


def _refusal(text: str) -> Refusal:
    return Refusal(ResponseCode.INVALID_PARAMETER, text)
