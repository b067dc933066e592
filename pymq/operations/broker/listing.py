"""All brokers of a cluster, one record each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pymq.client.admin import Admin
from pymq.client.admin.machines import place_of
from pymq.errors import NotFoundError
from pymq.operations.auth.proof import is_unproven
from pymq.operations.replica_view import BrokerView, SlaveLag, ask, brokers, lag_of, master_of, problems_of


async def list_brokers(
    admin: Admin, cluster: str | None, *, may_refuse: bool = True
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Return the brokers sorted by cluster, name and id; and for a silent broker ``name:id`` and the reason.

    ``may_refuse``: brokers that refuse this sender are silent, too. Without it, raises RefusedError when one asks who
    this is, or when none answers and one refuses. Raises NotFoundError for a cluster without brokers.
    """
    registered = await brokers(admin)
    chosen = [view for view in registered if cluster is None or view.cluster == cluster]
    if cluster is not None and not chosen:
        names = ", ".join(sorted({view.cluster for view in registered})) or "none"
        raise NotFoundError(f"no cluster {cluster!r}: there are {names}")
    asked = await ask(admin, chosen)
    if not may_refuse:
        _raise_refusal(asked)
    silent = {f"{view.name}:{view.broker_id}": view.error for view in asked if view.status is None}
    return [_record(view, asked) for view in asked], silent


def _raise_refusal(views: Sequence[BrokerView]) -> None:
    refusals = [view.refusal for view in views if view.refusal is not None]
    for refusal in refusals:
        if is_unproven(refusal) or all(view.status is None for view in views):
            raise refusal


def _record(view: BrokerView, views: Sequence[BrokerView]) -> dict[str, Any]:
    status = view.status
    has_slaves = status is not None and status.knows_slaves and view.is_master
    place = place_of(view.runtime)
    lag = SlaveLag() if view.is_master else lag_of(view, master_of(view, views))
    return {
        "cluster": view.cluster,
        "broker": view.name,
        "broker_id": view.broker_id,
        "role": status.role if status else None,
        "address": view.address,
        "version": view.version,
        "in_per_second": view.per_second("putTps"),
        "out_per_second": view.per_second("getTransferredTps"),
        "log_start": status.log_start if status else None,
        "log_end": status.log_end if status else None,
        "lag_bytes": lag.lag_bytes,
        "lag_messages": lag.lag_messages,
        "lag_ms": lag.lag_ms,
        "in_sync": lag.in_sync,
        "in_sync_slaves": status.in_sync_slaves if status and has_slaves else None,
        "connected_slaves": status.connected_slaves if status and has_slaves else None,
        "epoch": status.epoch_history[-1].epoch if status and status.epoch_history else None,
        "machine": place.machine if place else None,
        "worker": place.number if place else None,
        "problems": problems_of(view),
    }
