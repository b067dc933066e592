"""A broker that checks users: an administrator, and a user with rights to one topic alone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pymq.client import Admin, Credentials
from pymq.model.tables import TopicConfig
from pymq.testing.broker import TestBroker
from pymq.wire.bodies_auth import AclEntryInfo

ADMINISTRATOR: Final = ("admin", "admin-secret")
USER: Final = ("reader", "reader-secret")


def settings_with_users(directory: Path) -> dict[str, str]:
    """Return the settings of a broker that checks users, whose credentials are in the directory."""
    for name in ("admin", "servers"):
        (directory / name).touch(mode=0o600)
        (directory / name).write_text(f"accessKey: {name}\nsecretKey: {name}-secret\n")
    return {
        "authenticationEnabled": "true",
        "authorizationEnabled": "true",
        "initAuthenticationUser": f"file:{directory / 'admin'}",
        "innerClientAuthenticationCredentials": f"file:{directory / 'servers'}",
    }


@contextmanager
def secured_broker(directory: Path) -> Iterator[TestBroker]:
    """Start the broker. The topic is ``orders``."""
    with TestBroker(**settings_with_users(directory)) as broker:
        asyncio.run(_make_user(broker))
        yield broker


async def _make_user(broker: TestBroker) -> None:
    async with Admin(broker.namesrv, credentials=Credentials(*ADMINISTRATOR)) as admin:
        await admin.topics.put(broker.address, TopicConfig(topic_name="orders"))
        await admin.auth.create_user(broker.address, *USER)
        rule = AclEntryInfo(resource="Topic:orders", actions=["Get", "Sub", "Pub"], decision="Allow")
        await admin.auth.put_acl(broker.address, USER[0], [rule])
