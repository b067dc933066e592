"""Records as operations give them, for tests of pages."""

from __future__ import annotations

from typing import Any

from pymq.errors import UnreachableError
from pymq.operations.settings.servers import Found


def broker(name: str = "broker-a", broker_id: int = 0, /, **more: Any) -> dict[str, Any]:
    """Return the record of a broker that answers."""
    return {
        "cluster": "DefaultCluster",
        "broker": name,
        "broker_id": broker_id,
        "role": "ASYNC_MASTER" if broker_id == 0 else "SLAVE",
        "address": f"10.0.0.{broker_id + 1}:10911",
        "version": "V5_3_3",
        "in_per_second": 812.0,
        "out_per_second": 790.5,
        "log_start": 0,
        "log_end": 4096,
        "lag_bytes": None if broker_id == 0 else 2048,
        "lag_messages": None,
        "lag_ms": None,
        "in_sync": None if broker_id == 0 else True,
        "in_sync_slaves": 1 if broker_id == 0 else None,
        "connected_slaves": 1 if broker_id == 0 else None,
        "epoch": None,
        "problems": [],
    } | more


_FIGURES = ("role", "version", "in_per_second", "out_per_second", "log_start", "log_end", "lag_bytes")
SILENT: dict[str, Any] = dict.fromkeys((*_FIGURES, "in_sync_slaves", "connected_slaves"))


def settings(*keys: str, server: str = "broker-a:0", silent: str = "") -> Found:
    """Return settings of these keys, each with the value 1."""
    found = Found(done=[server])
    found.records = [
        {
            "server": server,
            "address": "10.0.0.1:10911",
            "key": key,
            "value": "1",
            "origin": "default",
            "changeable": True,
            "default": "1",
            "meaning": f"what {key} means",
        }
        for key in keys
    ]
    if silent:
        found.failed[silent] = UnreachableError(f"{silent} did not answer in time")
    return found
