"""Members of a broker group, as input of a promotion plan."""

from __future__ import annotations

from typing import Any

from pymq.client.admin.promotion_plan import GroupMember, PromotionPlan, plan_promotion
from pymq.wire.bodies_replication import EpochEntryBody, HaClientState, ReplicationStatus

A, B, C = "10.0.0.1:10911", "10.0.0.2:10911", "10.0.0.3:10911"


def status(address: str, broker_id: int, log_end: int = 1000, epoch: int = 2, **fields: Any) -> ReplicationStatus:
    given = {"cluster": "c", "broker_name": "b", "role": "SLAVE" if broker_id else "ASYNC_MASTER", **fields}
    entries = [EpochEntryBody(number, 0, f"{number:016x}") for number in range(1, epoch + 1)]
    return ReplicationStatus(address=address, broker_id=broker_id, log_end=log_end, epoch_history=entries, **given)


def ha_client(state: str = "following", master: str = A, **fields: Any) -> HaClientState:
    return HaClientState(master_address=master, state=state, **{"metadata_age_ms": 0, **fields})


def master(address: str = A, **fields: Any) -> GroupMember:
    return GroupMember(address, 0, status(address, 0, **fields))


def slave(address: str, broker_id: int, log_end: int = 1000, state: str = "following", **fields: Any) -> GroupMember:
    given = {"ha_client": ha_client(state), **fields}
    return GroupMember(address, broker_id, status(address, broker_id, log_end, **given))


def away(address: str, registered_id: int) -> GroupMember:
    return GroupMember(address, registered_id, error=f"no connection to {address}")


def plan(*members: GroupMember, target: str = "") -> PromotionPlan:
    return plan_promotion("b", members, target)
