"""Promotes a slave: finds its group, describes the plan, and carries it out."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from typing import Any

from pymq.client.admin import Admin
from pymq.client.admin.promotion import Promotion
from pymq.client.admin.promotion_plan import GroupMember, PromotionPlan, common_end, plan_promotion
from pymq.clock import Clock
from pymq.errors import NotFoundError, PymqError, UnreachableError
from pymq.model.route import MASTER_ID, BrokerData
from pymq.wire.bodies_replication import LogDigestsRequest

REGISTERED_TIMEOUT_MS = 5000
POLL_S = 0.05
COMPARED_BYTES_MAX = 64 * 1024  # of the slaves' logs, before the end that all have


async def make_plan(admin: Admin, broker: str) -> PromotionPlan:
    """Make the plan for a broker name, or for the slave at "host:port". Raises NotFoundError, UnreachableError."""
    target = broker if ":" in broker else ""
    table = await _registered(admin, must_answer=not target)
    name = await _name_at(admin, target, table) if target else broker
    if not target and name not in table:
        known = ", ".join(sorted(table)) or "none"
        raise NotFoundError(f"no broker {name!r}: there are {known}; the address of a slave works too")
    ids = {address: broker_id for broker_id, address in table[name].broker_addrs.items()} if name in table else {}
    if target:
        ids.setdefault(target, -1)
    members = await _ask(admin, ids)
    # A master without a registration may be running: the members name it.
    known_statuses = [member.status for member in members if member.status is not None]
    masters = {status.second_master for status in known_statuses}
    masters |= {status.ha_client.master_address for status in known_statuses if status.ha_client}
    unseen = {address: -1 for address in masters if address and address not in ids}
    members = [*members, *await _ask(admin, unseen)]
    if not any(member.status is not None and member.broker_id == MASTER_ID for member in members):
        members = await _compare_logs(admin, members)
    return plan_promotion(name, members, target)


async def _compare_logs(admin: Admin, members: list[GroupMember]) -> list[GroupMember]:
    """Compare the end that the slaves' logs have in common; mark slaves that differ from most slaves.

    Without a master nothing else tells whose log is the group's. Where two halves differ, all are marked.
    """
    slaves = [member for member in members if member.is_pymq and not member.log_problem]
    statuses = [member.status for member in slaves if member.status is not None]
    if len(statuses) < 2:
        return members
    end = min([status.log_end for status in statuses])
    for one, other in combinations(statuses, 2):
        common = common_end(one, other)
        end = min(end, common if common is not None else end)
    segment_bytes = max(status.segment_size_bytes for status in statuses) or end
    start = max(end - COMPARED_BYTES_MAX, (end - 1) // segment_bytes * segment_bytes) if end > 0 else 0
    if start >= end or any(status.log_start > start for status in statuses):
        return members
    request = LogDigestsRequest(start=start, end=end, chunk_bytes=end - start, count_max=1)

    async def digest(address: str) -> str:
        try:
            return (await admin.replication.digests(address, request)).digests[0]
        except (PymqError, IndexError):
            return ""

    addresses = [member.address for member in slaves]
    found = dict(zip(addresses, await asyncio.gather(*map(digest, addresses)), strict=True))
    counts = Counter(filter(None, found.values())).most_common(2)
    if len(counts) < 2:
        return members
    right = counts[0][0] if counts[0][1] > counts[1][1] else ""
    differs = f"its bytes from {start} to {end} differ from those of the other slaves"
    return [
        replace(member, differs=differs) if found.get(member.address, "") not in ("", right) else member
        for member in members
    ]


async def _registered(admin: Admin, *, must_answer: bool) -> dict[str, BrokerData]:
    try:
        return (await admin.cluster.info()).broker_addr_table
    except UnreachableError:
        if must_answer:
            raise
        return {}


async def _name_at(admin: Admin, address: str, table: dict[str, BrokerData]) -> str:
    for name, data in table.items():
        if address in data.broker_addrs.values():
            return name
    return (await admin.replication.status(address)).broker_name


async def _ask(admin: Admin, ids: dict[str, int]) -> list[GroupMember]:
    async def ask(address: str, broker_id: int) -> GroupMember:
        try:
            return GroupMember(address, broker_id, await admin.replication.status(address))
        except PymqError as error:
            return GroupMember(address, broker_id, error=str(error))

    found = await asyncio.gather(*[ask(address, broker_id) for address, broker_id in ids.items()])
    return sorted(found, key=lambda member: (member.broker_id, member.address))


async def carry_out(
    admin: Admin, plan: PromotionPlan, clock: Clock, *, force: bool, timeout_s: float, tell: Callable[[str], None]
) -> dict[str, Any]:
    """Carry out the plan; return the new master's epoch and role, and warnings."""
    promotion = Promotion(admin.replication, clock, asyncio.sleep, catch_up_timeout_ms=int(timeout_s * 1000), tell=tell)
    result = await promotion.run(plan, force=force)
    notes = [*result.notes, *await _registered_as_master(admin, plan, clock)]
    entry = result.master.epoch_history[-1]
    return {
        "epoch": entry.epoch,
        "start": entry.start,
        "role": result.master.role,
        "notes": notes,
    }


async def _registered_as_master(admin: Admin, plan: PromotionPlan, clock: Clock) -> list[str]:
    """Wait until clients are sent to the new master; return a warning if that is not certain."""
    target = plan.target.address
    until_ms = clock.monotonic_ms() + REGISTERED_TIMEOUT_MS
    while True:
        try:
            data = (await admin.cluster.info()).broker_addr_table.get(plan.broker_name)
        except PymqError as error:
            return [f"clients can't be sent to {target} yet: {error}"]
        if data is not None and data.master_address == target:
            return []
        if clock.monotonic_ms() >= until_ms:
            return [f"the name servers do not have {target} as the master yet: see pymq broker status {target}"]
        await asyncio.sleep(POLL_S)


def plan_record(plan: PromotionPlan) -> dict[str, Any]:
    """Return the plan as plain values."""
    return {
        "broker": plan.broker_name,
        "target": plan.target.address,
        "master": plan.master.address if plan.master is not None else None,
        "lost_master": plan.lost_master or None,
        "members": [_member_record(plan, member) for member in plan.members],
        "steps": _steps(plan),
        "risks": list(plan.risks),
        "obstacles": list(plan.obstacles),
    }


def _member_record(plan: PromotionPlan, member: GroupMember) -> dict[str, Any]:
    status = member.status
    return {
        "broker_id": member.broker_id,
        "address": member.address,
        "role": status.role if status is not None else None,
        "log_end": status.log_end if status is not None else None,
        "lag_bytes": plan.lag_bytes(member),
        "lag_messages": plan.lag_messages(member),
        "epoch": member.epoch if status is not None else None,
        "becomes": _becomes(plan, member),
        "problem": member.error or member.log_problem or (status.problem if status is not None else ""),
    }


def _becomes(plan: PromotionPlan, member: GroupMember) -> str:
    if plan.obstacles:
        return ""
    if member is plan.target:
        return "master"
    if member in plan.second_masters:
        return "slave"
    return f"slave {plan.target.broker_id}" if member is plan.master else ""


def _steps(plan: PromotionPlan) -> list[str]:
    target, master = plan.target, plan.master
    if plan.obstacles:
        return []
    if plan.second_masters:
        second_masters = " and ".join(second_master.address for second_master in plan.second_masters)
        return [
            f"{target.address} begins a new epoch, {target.epoch + 1}",
            f"{second_masters} steps down when it learns of that, truncates its divergent tail, and follows it",
        ]
    if master is None:
        return [f"{target.address} (id {target.broker_id}) becomes the master (id {MASTER_ID})"]
    return [
        f"{master.address} refuses writes until {target.address} has everything",
        f"{master.address} steps down: it becomes slave {target.broker_id}",
        f"{target.address} (id {target.broker_id}) becomes the master (id {MASTER_ID})",
        f"{master.address} follows it",
    ]
