"""Java 4.9.8, Go, C++ and ali-ons sign: right, wrong, missing and deleted users; sending or consuming alone allowed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from pymq.client import Admin, Credentials
from pymq.model.tables import TopicConfig
from pymq.wire.bodies_auth import AclEntryInfo
from tests.interop.support.connected import DEADLINE_S, ConnectedUser, start_cpp, start_go, start_java_4, start_node
from tests.interop.support.pymq_server import PymqServer, user_settings

ROOT = Credentials("root", "root-secret")
CLIENTS = {"java-4-9": start_java_4, "go": start_go, "cpp": start_cpp, "ali-ons": start_node}
ALLOWED = {"both": ["Pub", "Sub"], "sender": ["Pub"], "reader": ["Sub"]}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PymqServer]:
    directory = tmp_path_factory.mktemp("users")
    started = PymqServer(directory, user_settings(directory))
    yield started
    started.stop()


async def allow(admin: Admin, broker: str, name: str, topic: str, actions: list[str]) -> Credentials:
    """Make a user with these permissions on the topic, and to read as the groups that begin with its name."""
    await admin.auth.create_user(broker, name, f"{name}-secret")
    entries = [AclEntryInfo(resource=f"Topic:{topic}", actions=actions, decision="Allow")]
    if "Sub" in actions:
        entries.append(AclEntryInfo(resource=f"Group:{name}*", actions=["Sub"], decision="Allow"))
    await admin.auth.put_acl(broker, name, entries)
    return Credentials(name, f"{name}-secret")


async def is_served_again(one: ConnectedUser, body: str) -> bool:
    """Send until a message is not refused: failed proofs block their user at the address for some seconds."""
    for attempt in range(DEADLINE_S * 2):
        if await one.send(f"{body} {attempt}") == "SEND_OK":
            return True
        await asyncio.sleep(0.5)
    return False


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_is_served_by_its_signature(server: PymqServer, tmp_path: Path, client: str) -> None:
    topic, broker, start = f"Users-{client}", server.broker, CLIENTS[client]
    connected: dict[str, ConnectedUser] = {}

    def connect(kind: str, user: Credentials | None) -> ConnectedUser:
        group = f"{user.access_key}-group" if user is not None else "nobody"
        connected[kind] = ConnectedUser(start, server, topic, group, user, tmp_path / kind)
        return connected[kind]

    async def scenario() -> None:
        async with Admin(server.namesrv, credentials=ROOT) as admin:
            await admin.topics.put(broker, TopicConfig(topic_name=topic, read_queue_nums=1, write_queue_nums=1))
            users = {kind: await allow(admin, broker, f"{kind}-{client}", topic, ALLOWED[kind]) for kind in ALLOWED}
            both, sender, reader = (connect(kind, user) for kind, user in users.items())
            assert await both.send("of both") == await sender.send("of sender") == "SEND_OK"
            assert "SEND_OK" not in await reader.send("of reader")
            for one in (both, reader):
                await one.has_consumed("of both")
                await one.has_consumed("of sender")

            missing = connect("missing", None)
            assert "SEND_OK" not in await missing.send("of nobody")
            wrong = connect("wrong", Credentials(users["both"].access_key, "another-secret"))
            assert "SEND_OK" not in await wrong.send("of a wrong secret")
            for kind in ("missing", "wrong"):  # they ask again all the time, and that blocks their user there
                connected.pop(kind).end()
            assert await is_served_again(both, "unblocked")

            await admin.auth.delete_user(broker, users["both"].access_key)
            assert "SEND_OK" not in await both.send("of a deleted user")
            connected.pop("both").end()
            assert await is_served_again(sender, "last")
            await reader.told(lambda line: line.startswith("consumed last"))
            assert not [line for line in both.lines if line.startswith("consumed last")]
            for one in (sender, missing, wrong):
                assert not [line for line in one.lines if line.startswith("consumed")]
            assert {line for line in reader.lines if "deleted" in line or "nobody" in line or "wrong" in line} == set()

    try:
        asyncio.run(scenario())
    finally:
        for one in connected.values():
            one.end()


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials of who runs the test must not help."""
    for name in ("PYMQ_CREDENTIALS_FILE", "PYMQ_ACCESS_KEY", "PYMQ_SECRET_KEY"):
        monkeypatch.delenv(name, raising=False)
