"""mqadmin 5.3.3 makes, shows, changes, copies and deletes users and ACLs of two brokers that check their requests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from pymq.client import Credentials, Message
from pymq.client.sync import Producer
from pymq.errors import RefusedError
from tests.interop.support.mqadmin import MqAdmin
from tests.interop.support.pymq_server import PymqServer
from tests.interop.support.second_runs import SecondRuns

TOPIC = "AuthOrders"
CREDENTIALS = "accessKey: root\nsecretKey: root-secret\n"


class World(NamedTuple):
    """Two brokers with the same administrator; mqadmin signs as that one and knows the name server of the first."""

    admin: MqAdmin
    one: PymqServer
    other: PymqServer


@pytest.fixture(scope="module")
def world(second_runs: SecondRuns, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    directory = tmp_path_factory.mktemp("auth")
    secret = _private(directory / "root.yml")
    settings = {
        "authenticationEnabled": "true",
        "authorizationEnabled": "true",
        "initAuthenticationUser": f"file:{secret}",
    }
    (directory / "mqadmin" / "conf").mkdir(parents=True)
    _private(directory / "mqadmin" / "conf" / "tools.yml")  # mqadmin signs with it
    servers = []
    for name in ("one", "other"):
        (directory / name).mkdir()
        servers.append(PymqServer(directory / name, settings))
    admin = MqAdmin(servers[0].namesrv, directory / "mqadmin", second_runs)
    admin.run("clusterList")
    yield World(admin, *servers)
    admin.close()
    for server in servers:
        server.stop()


def _private(path: Path) -> Path:
    path.write_text(CREDENTIALS)
    path.chmod(0o600)
    return path


def row(printed: str, first: str) -> list[str]:
    """Return the words of the line that begins with `first`; none when there is no such line."""
    return next((line.split() for line in printed.splitlines() if line.split()[:1] == [first]), [])


def sends(world: World, body: bytes = b"x") -> bool:
    credentials = Credentials("ada", "ada-secret")
    try:
        with Producer("P", namesrv=world.one.namesrv, credentials=credentials) as producer:
            producer.send(Message(TOPIC, body))
    except RefusedError as error:
        assert "User:ada" in str(error) or "signature" in str(error), error
        return False
    return True


def test_mqadmin_makes_users_and_gives_them_permissions(world: World) -> None:
    admin, broker = world.admin, ("-b", world.one.broker)
    assert "success" in admin.run("createUser", "-c", world.one.cluster, "-u", "ada", "-p", "ada-secret")
    assert "The user is existed" in admin.run("createUser", *broker, "-u", "ada", "-p", "x")
    assert row(admin.run("getUser", *broker, "-u", "ada"), "ada") == ["ada", "ada-secret", "Normal", "enable"]
    assert not sends(world)
    acl = ("-s", "User:ada", "-r", f"Topic:{TOPIC},Topic:Other*", "-a", "Pub", "-d", "Allow")
    assert "success" in admin.run("createAcl", *broker, *acl)
    assert row(admin.run("getAcl", *broker, "-s", "User:ada"), "User:ada")[1:4] == ["Custom", f"Topic:{TOPIC}", "[Pub]"]
    assert sends(world)
    deny = ("-s", "User:ada", "-r", f"Topic:{TOPIC}", "-a", "Pub", "-i", "127.0.0.0/8", "-d", "Deny")
    assert "success" in admin.run("updateAcl", *broker, *deny)
    assert not sends(world)
    assert f"Topic:{TOPIC}" in admin.run("listAcl", *broker, "-s", "ada", "-r", TOPIC)
    assert "success" in admin.run("deleteAcl", *broker, "-s", "User:ada", "-r", f"Topic:{TOPIC}")
    assert "Topic:Other*" in admin.run("listAcl", *broker)
    assert f"Topic:{TOPIC}" not in admin.run("listAcl", *broker)


def test_mqadmin_copies_changes_and_deletes_users(world: World) -> None:
    admin, broker, places = world.admin, ("-b", world.one.broker), ("-f", world.one.broker, "-t", world.other.broker)
    assert "copy user of ada" in admin.run("copyUser", *places)
    assert "success" in admin.run("copyAcl", *places, "-s", "User:ada")
    other = ("-b", world.other.broker)
    assert row(admin.run("listUser", *other), "ada") == ["ada", "ada-secret", "Normal", "enable"]
    assert "Topic:Other*" in admin.run("getAcl", *other, "-s", "User:ada")
    assert "success" in admin.run("updateUser", *other, "-u", "ada", "-s", "disable")
    assert row(admin.run("listUser", *other, "-f", "ad"), "ada")[-1] == "disable"
    assert "success" in admin.run("deleteUser", *broker, "-u", "ada")
    assert not row(admin.run("listUser", *broker), "ada")
    assert "no enabled user of type Super" in admin.run("deleteUser", *broker, "-u", "root")
    assert not sends(world)
