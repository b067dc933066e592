"""The work of ``pymq broker config``: reads and changes settings, one record per setting and broker."""

from __future__ import annotations

from typing import Any

from pymq.cli.replica_view import BrokerView, named
from pymq.client.admin import Admin
from pymq.errors import NotFoundError
from pymq.units import format_bytes

# Settings that may delete segments when they change.
DELETING_KEYS = frozenset(
    {
        "fileReservedTime",
        "deleteWhen",
        "diskMaxUsedSpaceRatio",
        "diskSpaceCleanForciblyRatio",
        "cleanFileForciblyEnable",
        "commitLogBytesMax",
        "diskFreeBytesMin",
    }
)


async def what_goes(admin: Admin, name: str, changes: dict[str, str]) -> str:
    """Returns which segments a change would delete, as a text to confirm; empty when no more than without it.

    Raises NotFoundError, RefusedError.
    """
    address = _broker_to_change(await named(admin, name), name).address
    plan = await admin.brokers.plan_config(address, changes)
    if plan is None:
        return f"{address} can't say what it would delete with {', '.join(sorted(changes.keys() & DELETING_KEYS))}"
    if plan.doomed_then <= plan.doomed_now:
        return ""
    return (
        f"{address} would delete {plan.doomed_then} of {plan.segments} segments ({format_bytes(plan.doomed_bytes)}, "
        f"{', '.join(plan.reasons)}) from the next minute on; without the change {plan.doomed_now}"
    )


async def apply(admin: Admin, name: str, changes: dict[str, str], key: str) -> list[dict[str, Any]]:
    """Changes settings and returns them as the broker then has them.

    Without ``changes`` it returns the settings that contain ``key``, of all brokers of the name. Raises NotFoundError,
    RefusedError.
    """
    views = await named(admin, name)
    if not changes:
        return [
            record for view in views for record in await _settings(admin, view) if key.lower() in record["key"].lower()
        ]
    view = _broker_to_change(views, name)
    await admin.brokers.update_config(view.address, changes)
    return [record for record in await _settings(admin, view) if record["key"] in changes]


def _broker_to_change(views: list[BrokerView], name: str) -> BrokerView:
    masters = [view for view in views if view.is_master]
    if not masters and len(views) > 1:
        raise NotFoundError(f"no master of {name} is registered: name the broker to change by HOST:PORT")
    if len(masters) > 1:
        raise NotFoundError(f"{name} is in several clusters: name the broker to change by HOST:PORT")
    return (masters or views)[0]


async def _settings(admin: Admin, view: BrokerView) -> list[dict[str, Any]]:
    found = await admin.brokers.config(view.address)
    head = {
        "broker": found.get("brokerName", view.name),
        "broker_id": int(found.get("brokerId", view.broker_id)),
        "address": view.address,
    }
    return [{**head, "key": key, "value": value} for key, value in sorted(found.items())]
