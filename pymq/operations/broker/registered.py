"""Brokers that the name servers list. Who may write any address in place of a name reaches these alone."""

from __future__ import annotations

from typing import Final

from pymq.client.admin import Admin
from pymq.errors import NotFoundError

LABEL_LENGTH_SHOWN: Final = 300


async def address_of(admin: Admin, name: str, number: str) -> str:
    """Return the address of the broker of a name and an id. Raises NotFoundError."""
    data = (await admin.cluster.info()).broker_addr_table.get(name)
    for broker_id, address in data.broker_addrs.items() if data is not None else ():
        if str(broker_id) == number:
            return address
    raise not_registered(f"{name}:{number}")


async def check_registered(admin: Admin, name: str) -> None:
    """Raise NotFoundError for a name that no name server lists, and for what can be read as an address."""
    if name not in (await admin.cluster.info()).broker_addr_table or ":" in name:
        raise not_registered(name)


def not_registered(label: str) -> NotFoundError:
    """Return the error for a broker that no name server lists."""
    return NotFoundError(f"no broker {label[:LABEL_LENGTH_SHOWN]} is registered at the name servers")
