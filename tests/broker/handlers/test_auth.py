"""Requests about users and ACLs, signed, through the dispatcher: bodies, codes, and when a change counts."""

from __future__ import annotations

import json
import ssl
from pathlib import Path
from typing import Any

import pytest

from pymq.broker.assembly.security import BrokerSecurity
from pymq.broker.work.worker_threads import WorkOutcome
from pymq.client import Credentials
from pymq.clock import ManualClock
from pymq.config import load_broker_config
from pymq.errors import ConfigError
from pymq.offline.certificates import PemFiles
from pymq.wire.codes import RequestCode as Code
from pymq.wire.codes import ResponseCode
from pymq.wire.dispatch import Dispatcher
from tests.broker.handlers.test_clients import beat
from tests.broker.world import Caller, World
from tests.certificates import certificates, mutual_tls_settings

ROOT = '{"username": "root", "password": "root-secret"}'
SERVERS = '{"accessKey": "servers", "secretKey": "servers-secret"}'
ENTRY = {"resource": "Topic:orders", "actions": ["Pub"], "sourceIps": ["10.0.0.0/8"], "decision": "Allow"}


def secured(world: World | None = None, **settings: Any) -> tuple[World, Dispatcher]:
    """Return a broker with one administrator, and the table of requests that checks them."""
    keys: dict[str, Any] = {"authenticationEnabled": "true", "authorizationEnabled": "true"}
    world = world or World(**keys, **settings)
    world.config.init_authentication_user, world.config.inner_client_credentials = ROOT, SERVERS
    return world, BrokerSecurity(world.config, world.clock).dispatcher(world.parts)


def caller(world: World, dispatcher: Dispatcher, name: str = "root", secret: str | None = None) -> Caller:
    return Caller(world, "10.0.0.1:5", credentials=Credentials(name, secret or f"{name}-secret"), dispatcher=dispatcher)


def certificate_world() -> World:
    """Return a broker, at the time of the tests' certificates, on which they stand for users."""
    keys: dict[str, Any] = {"authenticationEnabled": "true", "authorizationEnabled": "true", **mutual_tls_settings()}
    keys["tls.server.principalMappingRules"] = "RULE:CN=(.*)/$1-user/"
    return World(clock=ManualClock(now_ms=certificates().made_at_ms), **keys)


def certified(world: World, dispatcher: Dispatcher, files: PemFiles) -> Caller:
    """Return a client that signs nothing, on a connection with a verified certificate."""
    found = Caller(world, "10.0.0.2:5", dispatcher=dispatcher)
    found.peer.client_certificate = ssl.PEM_cert_to_DER_cert(files.cert_path.read_text("ascii"))
    return found


def make_user(root: Caller, name: str, **members: str) -> None:
    root.ok(Code.AUTH_CREATE_USER, json.dumps({"password": f"{name}-secret", **members}).encode(), username=name)


def acl(name: str, *entries: dict[str, Any], level: str = "Custom") -> bytes:
    return json.dumps({"subject": f"User:{name}", "policies": [{"policyType": level, "entries": entries}]}).encode()


def test_a_user_is_made_shown_changed_and_deleted() -> None:
    world, table = secured()
    root = caller(world, table)
    make_user(root, "ada")
    assert json.loads(root.ok(Code.AUTH_GET_USER, username="ada").body) == {
        "username": "ada",
        "password": "ada-secret",
        "userType": "Normal",
        "userStatus": "enable",
    }
    assert [user["username"] for user in json.loads(root.ok(Code.AUTH_LIST_USER).body)] == ["ada", "root"]
    assert [user["username"] for user in json.loads(root.ok(Code.AUTH_LIST_USER, filter="ad").body)] == ["ada"]
    ada = caller(world, table, "ada")
    assert ada.ok(Code.CHECK_CLIENT_CONFIG, b"{}").code == ResponseCode.SUCCESS
    root.ok(Code.AUTH_UPDATE_USER, b'{"userStatus": "disable"}', username="ada")
    assert ada.refused(Code.CHECK_CLIENT_CONFIG, b"{}") == (ResponseCode.NO_PERMISSION, "User:ada is disabled.")
    root.ok(Code.AUTH_DELETE_USER, username="ada")
    assert ada.refused(Code.CHECK_CLIENT_CONFIG, b"{}") == (ResponseCode.NO_PERMISSION, "User:ada is not found.")
    assert root.ok(Code.AUTH_GET_USER, username="ada").body == b""
    root.ok(Code.AUTH_DELETE_USER, username="ada")


@pytest.mark.parametrize("secret", ["ada-secret", "another-secret"])
def test_a_user_that_is_made_again_inherits_nothing(secret: str) -> None:
    world, table = secured()
    root, clients = caller(world, table), world.parts.metadata.clients
    everything = [{"resource": name, "actions": ["All"], "decision": "Allow"} for name in ("Topic:*", "Group:*")]
    make_user(root, "ada")
    root.ok(Code.AUTH_CREATE_ACL, acl("ada", *everything), subject="User:ada")
    ada = caller(world, table, "ada")
    ada.ok(Code.HEART_BEAT, beat(group="g", topic="T"))
    (client,) = clients.producers("p")
    assert client.may_publish("T") and clients.member_ids("g")
    root.ok(Code.AUTH_UPDATE_USER, b'{"userStatus": "enable"}', username="ada")
    assert client.may_publish("T") and clients.member_ids("g"), "a change that changes no secret"
    root.ok(Code.AUTH_DELETE_USER, username="ada")
    assert not clients.producers("p") and not clients.member_ids("g"), "its clients are no members any more"
    make_user(root, "ada", password=secret)
    again = caller(world, table, "ada", secret)
    assert again.refused(Code.HEART_BEAT, beat(group="g", topic="T"))[0] == ResponseCode.NO_PERMISSION, "no rules"
    root.ok(Code.AUTH_CREATE_ACL, acl("ada", *everything), subject="User:ada")
    assert not client.may_publish("T"), "the proof was of the former user"
    again.ok(Code.HEART_BEAT, beat(group="g", topic="T"))
    assert clients.producers("p") and clients.member_ids("g")
    root.ok(Code.AUTH_UPDATE_USER, b'{"password": "third-secret"}', username="ada")
    assert not clients.producers("p") and not clients.member_ids("g"), "another secret"


def test_an_acl_is_merged_shown_and_deleted() -> None:
    world, table = secured()
    root = caller(world, table)
    make_user(root, "ada")
    subject = "User:ada"
    root.ok(Code.AUTH_CREATE_ACL, acl("ada", ENTRY), subject=subject)
    root.ok(Code.AUTH_UPDATE_ACL, acl("ada", {**ENTRY, "resource": "Group:g"}, level="Default"), subject=subject)
    found = json.loads(root.ok(Code.AUTH_GET_ACL, subject=subject).body)
    assert found == {
        "subject": subject,
        "policies": [
            {"policyType": "Custom", "entries": [ENTRY]},
            {"policyType": "Default", "entries": [{**ENTRY, "resource": "Group:g"}]},
        ],
    }
    assert json.loads(root.ok(Code.AUTH_LIST_ACL).body) == [found]
    [filtered] = json.loads(root.ok(Code.AUTH_LIST_ACL, subjectFilter="ad", resourceFilter="Group").body)
    assert [part["policyType"] for part in filtered["policies"]] == ["Default"]
    assert root.ok(Code.AUTH_LIST_ACL, subjectFilter="nobody").body == b""
    root.ok(Code.AUTH_DELETE_ACL, subject=subject, policyType="Default", resource="Group:g")
    root.ok(Code.AUTH_DELETE_ACL, subject=subject)
    assert root.ok(Code.AUTH_GET_ACL, subject=subject).body == b""
    code, _ = root.refused(Code.AUTH_DELETE_ACL, subject=subject)
    assert code == ResponseCode.NO_PERMISSION


def test_who_may_read_users_is_not_shown_their_passwords() -> None:
    world, table = secured()
    root = caller(world, table)
    make_user(root, "eva")
    root.ok(
        Code.AUTH_CREATE_ACL, acl("eva", {**ENTRY, "resource": "Cluster:*", "actions": ["Get"]}), subject="User:eva"
    )
    for reader in (caller(world, table, "eva"), caller(world, table, "servers")):
        shown = json.loads(reader.ok(Code.AUTH_LIST_USER).body)
        assert {user["username"] for user in shown} == {"eva", "root"}
        assert (
            b"secret" not in reader.ok(Code.AUTH_LIST_USER).body + reader.ok(Code.AUTH_GET_USER, username="root").body
        )
        code, _ = reader.refused(Code.AUTH_CREATE_USER, b'{"password": "x"}', username="x")
        assert code == ResponseCode.NO_PERMISSION


def test_a_certificate_proves_who_changes_users() -> None:
    world, table = secured(certificate_world())
    root = caller(world, table)
    make_user(root, "server-user", userType="Super")
    make_user(root, "client-user")
    entry = {**ENTRY, "resource": "Cluster:*", "actions": ["Get", "Update", "Create", "Delete"], "sourceIps": []}
    root.ok(Code.AUTH_CREATE_ACL, acl("client-user", entry), subject="User:client-user")

    administrator = certified(world, table, certificates().server)
    make_user(administrator, "second", userType="Super")
    administrator.ok(Code.AUTH_UPDATE_USER, b'{"userStatus": "disable"}', username="second")
    administrator.ok(Code.AUTH_CREATE_ACL, acl("client-user", ENTRY), subject="User:client-user")
    administrator.ok(Code.AUTH_DELETE_ACL, subject="User:client-user", resource="Topic:orders")
    [policy] = administrator.json(Code.AUTH_GET_ACL, subject="User:client-user")["policies"]
    assert [one["resource"] for one in policy["entries"]] == ["Cluster:*"]
    assert administrator.json(Code.AUTH_GET_USER, username="second")["password"] == "second-secret"

    other = certified(world, table, certificates().client)
    assert "password" not in other.json(Code.AUTH_GET_USER, username="second")
    for code, body in (
        (Code.AUTH_UPDATE_USER, b'{"userStatus": "enable"}'),
        (Code.AUTH_CREATE_USER, b'{"password": "p", "userType": "Super"}'),
        (Code.AUTH_DELETE_USER, b""),
    ):
        _, remark = other.refused(code, body, username="third" if code == Code.AUTH_CREATE_USER else "second")
        assert remark.startswith("User:client-user is not of type Super")
    administrator.ok(Code.AUTH_DELETE_ACL, subject="User:client-user")
    assert other.refused(Code.AUTH_LIST_USER)[0] == ResponseCode.NO_PERMISSION
    administrator.ok(Code.AUTH_DELETE_USER, username="second")
    assert [user["username"] for user in administrator.json(Code.AUTH_LIST_USER)] == [
        "client-user",
        "root",
        "server-user",
    ]


def test_a_change_counts_and_is_answered_once_it_is_saved() -> None:
    world, table = secured()
    root = caller(world, table)
    waiting: list[tuple[Any, Any]] = []
    world.run_in_thread = lambda work, done: waiting.append((work, done))
    assert root.ask(Code.AUTH_CREATE_USER, b'{"password": "ada-secret"}', username="ada") is None
    ada = caller(world, table, "ada")
    assert ada.refused(Code.CHECK_CLIENT_CONFIG, b"{}")[1] == "User:ada is not found."
    [(work, done)] = waiting
    done(WorkOutcome(work))
    assert root.peer.answers[-1].code == ResponseCode.SUCCESS
    assert ada.ok(Code.CHECK_CLIENT_CONFIG, b"{}")


def test_users_survive_a_restart_and_the_first_administrator_is_not_made_again() -> None:
    world, table = secured()
    root = caller(world, table)
    make_user(root, "other", userType="Super")
    root.ok(Code.AUTH_DELETE_USER, username="root")
    again, table = secured(world.reopened(authenticationEnabled="true", authorizationEnabled="true"))
    other = caller(again, table, "other")
    assert [user["username"] for user in json.loads(other.ok(Code.AUTH_LIST_USER).body)] == ["other"]
    code, remark = other.refused(Code.AUTH_DELETE_USER, username="other")
    assert code == ResponseCode.NO_PERMISSION and "no enabled user of type Super" in remark


def test_a_master_without_an_administrator_does_not_start() -> None:
    world = World(authenticationEnabled="true", authorizationEnabled="true")
    with pytest.raises(ConfigError, match="set initAuthenticationUser \\(pymq auth init DIR"):
        BrokerSecurity(world.config, world.clock).dispatcher(world.parts)


def test_the_name_of_the_servers_is_not_given_to_a_user() -> None:
    world, table = secured()
    code, remark = caller(world, table).refused(Code.AUTH_CREATE_USER, b'{"password": "x"}', username="servers")
    assert code == ResponseCode.NO_PERMISSION and "the name servers is the servers' own" in remark


@pytest.mark.parametrize(
    ("settings", "why"), [({}, "authenticationEnabled is off"), ({"aclEnable": "true"}, "change that file")]
)
def test_a_broker_without_users_of_its_own_refuses(settings: dict[str, Any], why: str) -> None:
    if settings:
        settings = {**settings, "plainAclFile": "/nowhere"}
    code, remark = Caller(World(**settings)).refused(Code.AUTH_LIST_USER)
    assert code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED and why in remark


def test_accounts_of_a_4x_file_become_users_once(tmp_path: Path) -> None:
    path = tmp_path / "plain_acl.yml"
    path.write_text(
        "accounts:\n"
        "- {accessKey: oldroot, secretKey: oldroot-secret, admin: true}\n"
        "- {accessKey: billing, secretKey: billing-secret, topicPerms: [T=PUB], defaultGroupPerm: SUB}\n"
        "- {accessKey: servers, secretKey: servers-secret}\n"
    )
    path.chmod(0o600)
    keys: dict[str, Any] = {"authenticationEnabled": "true", "authorizationEnabled": "true"}
    keys |= {"migrateAuthFromV1Enabled": "true", "plainAclFile": str(path)}
    world = World(**keys)
    for _ in range(2):
        world.config.inner_client_credentials = SERVERS
        table = BrokerSecurity(world.config, world.clock).dispatcher(world.parts)
        root = caller(world, table, "oldroot")
        found = {user["username"]: user for user in json.loads(root.ok(Code.AUTH_LIST_USER).body)}
        assert {name: user["userType"] for name, user in found.items()} == {"oldroot": "Super", "billing": "Normal"}
        policies = json.loads(root.ok(Code.AUTH_GET_ACL, subject="User:billing").body)["policies"]
        assert [part["policyType"] for part in policies] == ["Custom", "Default"]
        root.ok(Code.AUTH_UPDATE_USER, b'{"password": "another-secret"}', username="billing")
        world = world.reopened(**keys)
    assert found["billing"]["password"] == "another-secret"


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"plainAclFile": "x"}, "this broker has no users: set authenticationEnabled=true"),
        (
            {"authenticationEnabled": "true", "authorizationEnabled": "true"},
            "needs the file of accounts: set plainAclFile=",
        ),
    ],
)
def test_a_migration_without_users_or_a_file_is_refused(settings: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        load_broker_config(None, {"migrateAuthFromV1Enabled": "true", **settings})
