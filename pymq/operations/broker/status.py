"""One broker, or all brokers of a name, one record each."""

from __future__ import annotations

from typing import Any

import msgspec

from pymq.client.admin import Admin
from pymq.errors import PymqError, UnreachableError
from pymq.operations.replica_view import (
    UNPROVEN,
    BrokerView,
    ask,
    brokers,
    lag_of,
    master_of,
    named,
    problems_of,
    unproven_slaves,
)
from pymq.wire.bodies_raft import RaftGroupState


async def describe(admin: Admin, name: str) -> list[dict[str, Any]]:
    """Describe all brokers of a name, or one by address. Raises NotFoundError; UnreachableError if none answers."""
    views = await ask(admin, await named(admin, name))
    if all(view.status is None for view in views):
        raise UnreachableError(views[0].error)
    return [_record(view, await _master(admin, view, views)) for view in views]


async def _master(admin: Admin, view: BrokerView, asked: list[BrokerView]) -> BrokerView | None:
    """Return the master of a slave, which knows the lag; ask it too if the slave was named by its address."""
    if view.status is None or view.status.ha_client is None:
        return None
    found = master_of(view, asked)
    if found is not None:
        return found
    try:
        others = [one for one in await brokers(admin) if one.is_master and one.name == view.name]
    except PymqError:
        return None
    return master_of(view, await ask(admin, others))


def _unproven(view: BrokerView) -> list[str]:
    found = unproven_slaves(view.status) if view.status is not None else []
    return [UNPROVEN.format(", ".join(found))] if found else []


def _raft_record(raft: RaftGroupState) -> dict[str, Any]:
    return {
        "node": raft.node,
        "role": raft.role,
        "term": raft.term,
        "leader": raft.leader or None,
        "voters": raft.voter_count,
        "election_count": raft.election_count,
        "leader_change_count": raft.leader_change_count,
        "last_change": msgspec.structs.asdict(raft.last_change) if raft.last_change is not None else None,
    }


def _record(view: BrokerView, master: BrokerView | None) -> dict[str, Any]:
    head = {
        "broker": view.name,
        "cluster": view.cluster,
        "broker_id": view.broker_id,
        "address": view.address,
        "reachable": view.status is not None,
        "role": view.status.role if view.status else None,
        "problems": problems_of(view) + _unproven(view),
    }
    status = view.status
    if status is None:
        return head
    ha_client = None
    if status.ha_client is not None:
        ha_client = msgspec.structs.asdict(status.ha_client)
        lag = lag_of(view, master)
        known = {"lag_bytes": lag.lag_bytes, "lag_messages": lag.lag_messages, "lag_ms": lag.lag_ms}
        ha_client |= {name: value for name, value in known.items() if value is not None}
    return head | {
        "version": view.version,
        "ha_address": status.ha_address,
        "segment_size_bytes": status.segment_size_bytes,
        "log_start": status.log_start,
        "log_end": status.log_end,
        "message_count": status.message_count if status.message_count >= 0 else None,
        "confirm_offset": status.confirm_offset,
        "required_slaves": status.required_slaves,
        "in_sync_slaves": status.in_sync_slaves if status.knows_slaves else None,
        "connected_slaves": status.connected_slaves if status.knows_slaves else None,
        "degraded": status.degraded,
        "slaves": [msgspec.structs.asdict(slave) for slave in status.slaves],
        "ha_client": ha_client,
        "epoch_history": [msgspec.structs.asdict(entry) for entry in status.epoch_history],
        "truncations": [msgspec.structs.asdict(truncation) for truncation in status.truncations],
        "raft": _raft_record(status.raft) if status.raft is not None else None,
        "recovered_tail": msgspec.structs.asdict(status.recovered_tail) if status.recovered_tail is not None else None,
    }
