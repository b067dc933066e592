"""Changes of the members and the leader of a Raft group: what would change, and doing it."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

from pymq.client.admin import Admin
from pymq.clock import Clock
from pymq.errors import NotFoundError, PymqError, RaftRefusedError, UnreachableError
from pymq.operations.raft.groups import GroupView, group_record, raft_group, raft_groups
from pymq.wire.bodies_raft import (
    ADD,
    LEADER,
    LEARNER,
    OBSERVER,
    OUT_OF_DATE_BYTES,
    REMOVE,
    TRANSFER,
    VOTER,
    RaftGroupState,
    RaftRequest,
)

TRANSFER_TIMEOUT_MS = 5000
POLL_S = 0.05


async def status(admin: Admin, name: str | None) -> list[dict[str, Any]]:
    """Return a record for each Raft group, or for the one of a name. Raises NotFoundError, UnreachableError."""
    return [group_record(group) for group in await raft_groups(admin, name)]


class Plan(NamedTuple):
    """One request to a leader, and what it changes. ``members`` are texts such as "n1 voter"."""

    group: GroupView
    leader_address: str
    request: RaftRequest
    before: list[str]
    after: list[str]
    warnings: list[str]

    def record(self) -> dict[str, Any]:
        """Return the plan as plain values."""
        return {
            "broker": self.group.name,
            "action": self.request.action,
            "node": self.request.node,
            "leader": self.group.leading.node if self.group.leading else None,
            "term": self.request.term,
            "before": self.before,
            "after": self.after,
            "warnings": self.warnings,
        }


# -- hand over ---------------------------------------------------------------------------------------------------------


async def plan_transfer(admin: Admin, name: str, node: str | None) -> Plan:
    """Plan that ``node`` leads; without one, the preferred or else the most up-to-date voter.

    Raises NotFoundError for a node that is no voter, RaftRefusedError when it can't lead now.
    """
    return transfer_plan(await raft_group(admin, name), node)


def transfer_plan(group: GroupView, node: str | None) -> Plan:
    leader, leading = group.need_leader()
    target = node or best_successor(leading)
    member = leading.member(target)
    if member is None or member.kind != VOTER:
        voters = ", ".join(member.node for member in leading.members if member.kind == VOTER)
        raise NotFoundError(f"{target} is no voter of {group.name}: voters are {voters}")
    if target == leading.node:
        raise RaftRefusedError(f"{target} leads {group.name} already, in term {leading.term}")
    if not member.is_heard:
        raise RaftRefusedError(f"the leader {leading.node} does not hear {target}: start it first")
    warnings = []
    if member.lag_bytes > OUT_OF_DATE_BYTES:
        warnings.append(f"{target} lacks {member.lag_bytes} bytes: no send is taken until it has them, 0.5 s at most")
    request = RaftRequest(action=TRANSFER, node=target, term=leading.term)
    return Plan(group, leader.view.address, request, [f"{leading.node} leads"], [f"{target} leads"], warnings)


def best_successor(leading: RaftGroupState) -> str:
    """Return the voter that leadership should go to: preferred ones first, then the one with most of the log.

    Raises RaftRefusedError when the leader hears no other voter.
    """
    others = [member for member in leading.members if member.kind == VOTER and member.node != leading.node]
    heard = [member for member in others if member.is_heard]
    if not heard:
        raise RaftRefusedError(f"the leader {leading.node} hears no other voter: nobody could take over")
    order = {node: number for number, node in enumerate(leading.preferred)}
    return min(heard, key=lambda member: (order.get(member.node, len(order)), member.lag_bytes, member.node)).node


async def transfer(admin: Admin, plan: Plan, clock: Clock) -> dict[str, Any]:
    """Hand over, and wait until the node leads. Raises UnreachableError when it does not within 5 s."""
    began_ms = clock.monotonic_ms()
    target, address = plan.request.node, plan.group.address_of(plan.request.node)
    await admin.replication.change_raft_group(plan.leader_address, plan.request)
    while True:
        state = await _state_at(admin, address)
        if state is not None and state.role == LEADER and state.term > plan.request.term:
            return plan.record() | {"term": state.term, "took_ms": clock.monotonic_ms() - began_ms}
        if clock.monotonic_ms() - began_ms >= TRANSFER_TIMEOUT_MS:
            raise UnreachableError(
                f"{target} does not lead {plan.group.name} after {TRANSFER_TIMEOUT_MS / 1000:g} s: see pymq raft "
                f"status {plan.group.name}"
            )
        await asyncio.sleep(POLL_S)


async def _state_at(admin: Admin, address: str) -> RaftGroupState | None:
    try:
        return (await admin.replication.status(address)).raft
    except PymqError:
        return None  # it changes its role just now


# -- members -----------------------------------------------------------------------------------------------------------


async def plan_add(admin: Admin, name: str, node: str, *, as_observer: bool) -> Plan:
    """Plan that a node joins the group of a name."""
    group = await raft_group(admin, name)
    leader, leading = group.need_leader()
    before = _members(leading)
    after = {**before, node: OBSERVER if as_observer else LEARNER}
    warnings = []
    if node not in before and node not in leading.candidates:
        known = ", ".join(leading.candidates) or "none"
        warnings.append(f"{node} has not introduced itself to the leader (those that have: {known}): start it first")
    voters = leading.voter_count + (not as_observer and before.get(node) != VOTER)
    warnings += _warnings_of(voters)
    request = RaftRequest(action=ADD, node=node, term=leading.term, as_observer=as_observer)
    return Plan(group, leader.view.address, request, _texts(before), _texts(after), warnings)


async def plan_remove(admin: Admin, name: str, node: str) -> Plan:
    """Plan that a node leaves the group of a name. Raises NotFoundError for one that is no member."""
    group = await raft_group(admin, name)
    leader, leading = group.need_leader()
    before = _members(leading)
    if node not in before:
        raise NotFoundError(f"{node} is no member of {group.name}: members are {', '.join(before)}")
    after = {member: kind for member, kind in before.items() if member != node}
    warnings = _warnings_of(sum(kind == VOTER for kind in after.values()))
    if node == leading.node:
        warnings.append(f"{node} leads: the others elect a leader when it is gone; pymq raft transfer avoids the pause")
    request = RaftRequest(action=REMOVE, node=node, term=leading.term)
    return Plan(group, leader.view.address, request, _texts(before), _texts(after), warnings)


async def change(admin: Admin, plan: Plan) -> dict[str, Any]:
    """Ask the leader for the new membership. Raises RefusedError; then nothing has changed."""
    state = await admin.replication.change_raft_group(plan.leader_address, plan.request)
    return plan.record() | {"after": _texts(_members(state))}


def _members(state: RaftGroupState) -> dict[str, str]:
    return {member.node: member.kind for member in state.members}


def _texts(members: dict[str, str]) -> list[str]:
    return [f"{node} {kind}" for node, kind in sorted(members.items(), key=lambda item: int(item[0][1:]))]


def _warnings_of(voter_count: int) -> list[str]:
    if voter_count == 1:
        return ["a group of one voter stops with it, and its disk has the only copy that counts"]
    if voter_count % 2 == 0:
        stands = (voter_count - 1) // 2
        return [f"with {voter_count} voters the group stands {stands} failures, as many as with {voter_count - 1}"]
    return []
