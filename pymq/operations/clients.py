"""The clients that are connected to a cluster now."""

from __future__ import annotations

from typing import Any

from pymq.client.admin import Admin
from pymq.errors import NotFoundError
from pymq.wire.versions import version_name


async def connected_clients(admin: Admin, group: str | None) -> list[dict[str, Any]]:
    """Return a record for each producer and consumer, of one group or of all, with the brokers of each."""
    return [
        {**one._asdict(), "version": version_name(one.version), "brokers": list(one.brokers)}
        for one in await admin.instances.all()
        if group in (None, one.group)
    ]


def no_client(group: str) -> NotFoundError:
    """Return the error for a group without a client."""
    return NotFoundError(f"no client of a group {group!r} is connected: pymq cluster clients shows all clients")
