"""``pymq auth init``, ``user``, ``acl``, ``check`` and ``reset`` against a broker that checks its requests."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from pymq.cli import main as cli
from pymq.client import Credentials, Message
from pymq.client.sync import Producer
from pymq.errors import EXIT_NOT_FOUND, EXIT_OK, EXIT_REFUSED, EXIT_USAGE, RefusedError
from pymq.offline.auth_files import reset_administrator
from pymq.security.user_table import from_json
from pymq.store.disk.fs import RealFiles
from pymq.store.disk.json_table import JsonTable
from pymq.testing.standalone import StandaloneProcess
from tests.certificates import certificates
from tests.cli.conftest import Outcome, Pymq
from tests.cli.schemas import assert_documented

TOPIC = "AuthUsersTopic"


class Secured(NamedTuple):
    """A broker with the users that ``pymq auth init`` has made."""

    process: StandaloneProcess
    store: Path
    directory: Path


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    home = tmp_path_factory.mktemp("auth-users")
    assert cli.run(["auth", "init", str(home / "auth"), "-o", "json"]) == EXIT_OK
    settings = {
        "authenticationEnabled": "true",
        "authorizationEnabled": "true",
        "initAuthenticationUser": f"file:{home / 'auth' / 'administrator.yml'}",
        "innerClientAuthenticationCredentials": f"file:{home / 'auth' / 'servers.yml'}",
    }
    with StandaloneProcess(home / "store", settings=settings) as process:
        yield Secured(process, home / "store", home / "auth")


@pytest.fixture
def auth(secured: Secured, pymq: Pymq, monkeypatch: pytest.MonkeyPatch) -> Pymq:
    """Return a runner of ``pymq auth …`` that signs as the administrator."""
    monkeypatch.setenv("NAMESRV_ADDR", secured.process.namesrv)
    monkeypatch.setenv("PYMQ_CREDENTIALS_FILE", str(secured.directory / "administrator.yml"))

    def run(*words: str, stdin: str | None = None) -> Outcome:
        return pymq("auth", *words, stdin=stdin)

    return run


def shown(outcome: Outcome) -> Outcome:
    assert outcome.code == EXIT_OK, outcome.err
    return outcome


def test_init_makes_files_for_the_owner_alone_and_shows_the_settings(pymq: Pymq, tmp_path: Path) -> None:
    directory = tmp_path / "auth"
    record = shown(pymq("auth", "init", str(directory), "-o", "json")).json()
    assert_documented("auth init", record)
    for name in ("administrator.yml", "servers.yml"):
        assert stat.S_IMODE((directory / name).stat().st_mode) == 0o600
        assert len(Credentials.from_file(directory / name).reveal()) == 32
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    again = pymq("auth", "init", str(directory))
    assert again.code == EXIT_USAGE and "is there already" in again.err
    other = shown(pymq("auth", "init", str(tmp_path / "other"), "--name", "root"))
    assert f"initAuthenticationUser=file:{tmp_path / 'other' / 'administrator.yml'}\n" in other.out
    assert Credentials.from_file(tmp_path / "other" / "administrator.yml").reveal() not in other.out + other.err


@pytest.mark.slow
def test_users_are_made_changed_and_deleted(auth: Pymq, tmp_path: Path) -> None:
    file = tmp_path / "ada.yml"
    made = shown(auth("user", "create", "ada", "--write", str(file), "-o", "json"))
    assert_documented("auth user create", made.json())
    assert made.json()["brokers"] == ["broker-a"]
    secret = Credentials.from_file(file).reveal()
    again = auth("user", "create", "ada", "--secret-from", f"file:{file}")
    assert again.code == EXIT_REFUSED and "pymq auth user update changes it" in again.err
    records = shown(auth("user", "list", "ada", "-o", "json")).json()
    assert records == [{"user": "ada", "type": "Normal", "enabled": True, "brokers": ["broker-a"]}]
    assert_documented("auth user list", records)
    for change, expected in (
        (("--disable",), {"type": "Normal", "enabled": False}),
        (("--enable", "--type", "super"), {"type": "Super", "enabled": True}),
        (("--write", str(tmp_path / "new.yml")), {"type": "Super", "enabled": True}),
    ):
        assert_documented("auth user update", shown(auth("user", "update", "ada", *change, "-o", "json")).json())
        record = shown(auth("user", "show", "ada", "-o", "json")).json()
        assert {name: record[name] for name in expected} == expected
    assert_documented("auth user show", record)
    everything = "".join(shown(auth("user", *words)).out for words in (("list",), ("show", "ada")))
    assert secret not in everything and Credentials.from_file(tmp_path / "new.yml").reveal() not in everything
    assert auth("user", "delete", "ada").code == EXIT_USAGE
    assert_documented("auth user delete", shown(auth("user", "delete", "ada", "--yes", "-o", "json")).json())
    assert auth("user", "show", "ada").code == EXIT_NOT_FOUND
    last = auth("user", "delete", "administrator", "--yes")
    assert last.code == EXIT_REFUSED and "no enabled user of type Super" in last.err


def test_rules_decide_what_a_user_may_do_and_check_explains_it(
    secured: Secured, auth: Pymq, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOB_ACCESS_KEY", "bob")
    monkeypatch.setenv("BOB_SECRET_KEY", "bob-secret")
    shown(auth("user", "create", "bob", "--secret-from", "env:BOB"))

    def sends() -> bool:
        credentials = Credentials("bob", "bob-secret")
        try:
            with Producer("P", namesrv=secured.process.namesrv, credentials=credentials) as producer:
                producer.send(Message(TOPIC, b"x"))
        except RefusedError as error:
            assert "User:bob has no permission" in str(error)
            return False
        return True

    assert not sends()
    made = shown(auth("acl", "create", "bob", "Topic:AuthUsers*", "-a", "Pub,Sub", "-o", "json")).json()
    assert_documented("auth acl create", made)
    assert sends()
    assert auth("acl", "create", "bob", "Topic:AuthUsers*", "-a", "Pub").code == EXIT_REFUSED
    assert auth("acl", "update", "bob", "Topic:other", "-a", "Pub").code == EXIT_NOT_FOUND
    shown(auth("acl", "create", "bob", f"Topic:{TOPIC}", "-a", "Pub", "--deny", "--from", "127.0.0.0/8"))
    assert not sends()
    explained = shown(auth("check", "bob", "Pub", f"Topic:{TOPIC}", "-o", "json")).json()
    assert_documented("auth check", explained)
    assert not explained["allowed"] and explained["why"].startswith("Custom entry: Deny Pub")
    assert shown(auth("check", "bob", "Pub", f"Topic:{TOPIC}", "--from", "10.0.0.1", "-o", "json")).json()["allowed"]
    assert shown(auth("check", "bob", "Pub", "Topic:%RETRY%g", "-o", "json")).json()["resource"] == "Group:g"
    changed = shown(auth("acl", "update", "bob", f"Topic:{TOPIC}", "-a", "Sub", "--deny", "-o", "json"))
    assert_documented("auth acl update", changed.json())
    assert sends()
    for words in (("list", "--resource", TOPIC), ("show", "bob")):
        records = shown(auth("acl", *words, "-o", "json")).json()
        assert (records[-1]["resource"], records[-1]["actions"]) == (f"Topic:{TOPIC}", ["Sub"])
    assert_documented("auth acl list", records)
    assert_documented("auth acl show", records)
    assert auth("acl", "delete", "bob").code == EXIT_USAGE
    deleted = shown(auth("acl", "delete", "bob", f"Topic:{TOPIC}", "-o", "json"))
    assert_documented("auth acl delete", deleted.json())
    shown(auth("acl", "delete", "bob", "--yes"))
    assert shown(auth("acl", "show", "bob", "-o", "json")).json() == []
    shown(auth("user", "delete", "bob", "--yes"))


def test_a_dry_run_changes_nothing(auth: Pymq, tmp_path: Path) -> None:
    file = tmp_path / "eve.yml"
    planned = shown(auth("user", "create", "eve", "--write", str(file), "--dry-run", "-o", "json"))
    assert planned.json()["applied"] is False and not file.exists()
    assert auth("user", "show", "eve").code == EXIT_NOT_FOUND


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("user", "create", "x"), "the user needs a secret"),
        (("user", "create", "x", "--secret-from", "hunter22"), "credentials are given by reference"),
        (("user", "create", "x", "--write", "a", "--secret-from", "env:A"), "exclude each other"),
        (("user", "update", "x"), "nothing to change is given"),
        (("acl", "create", "x", "Tpic:a", "-a", "Pub"), "is no resource"),
        (("acl", "create", "x", "Topic:a", "-a", "Read"), "is no action"),
        (("acl", "create", "x", "Topic:a", "-a", "Pub", "--from", "here"), "is no address"),
        (("check", "x", "All", "Topic:a"), "All is no single action"),
    ],
)
def test_bad_words_are_named(auth: Pymq, words: tuple[str, ...], problem: str, tmp_path: Path) -> None:
    if words[0] == "check":
        path = tmp_path / "acl.yml"
        path.write_text("accounts:\n- {accessKey: xxxxxxx, secretKey: xxxxxxx}\n")
        path.chmod(0o600)
        words = ("check", "xxxxxxx", *words[2:], "--acl", str(path))
    outcome = auth(*words)
    assert outcome.code == EXIT_USAGE and problem in outcome.err and "hunter22" not in outcome.err


def test_check_reads_an_acl_file_too(pymq: Pymq, tmp_path: Path) -> None:
    path = tmp_path / "plain_acl.yml"
    path.write_text("accounts:\n- {accessKey: producer, secretKey: producer-secret, topicPerms: [orders=PUB]}\n")
    path.chmod(0o600)
    words = ("auth", "check", "producer", "Pub", "--acl", str(path), "-o", "json")
    assert shown(pymq(*words, "Topic:orders")).json()["allowed"]
    assert not shown(pymq(*words, "Topic:other")).json()["allowed"]


def test_check_says_who_a_certificate_is(auth: Pymq, pymq: Pymq, tmp_path: Path) -> None:
    path = tmp_path / "plain_acl.yml"
    path.write_text("accounts:\n- {accessKey: a-client, secretKey: producer-secret, topicPerms: [orders=PUB]}\n")
    path.chmod(0o600)
    certificate = f"certificate:{certificates().client.cert_path}"
    rule = "RULE:CN=(.*)/a-$1/L"
    words = ("check", certificate, "Pub", "Topic:orders", "-o", "json")
    record = shown(auth(*words, "--acl", str(path), "--mapping", f"RULE:CN=x/x/,{rule}")).json()
    assert_documented("auth check", record)
    assert record["allowed"] and (record["subject"], record["mapping"], record["user"]) == (
        "CN=client",
        rule,
        "a-client",
    )
    assert "CN=client, by RULE" in shown(auth(*words[:-2], "--acl", str(path), "--mapping", rule)).out
    for more, text in (
        ((), "tls.server.principalMappingRules is empty"),
        (("--mapping", "RULE:CN=x/x/"), "no rule of RULE:CN=x/x/ is for the subject CN=client"),
        (("--mapping", "x"), "is no rule"),
    ):
        refused = auth(*words, *more)
        assert refused.code == EXIT_USAGE and text in refused.err
    assert "can't be used as a certificate" in auth("check", f"certificate:{path}", "Pub", "Topic:orders").err
    assert "--mapping is for a certificate" in auth("check", "bob", "Pub", "Topic:orders", "--mapping", rule).err


def test_reset_needs_a_stopped_broker_and_its_files(secured: Secured, pymq: Pymq, tmp_path: Path) -> None:
    file = tmp_path / "new.yml"
    running = pymq("auth", "reset", str(secured.store), "--write", str(file))
    assert running.code != EXIT_OK and "is locked" in running.err and not file.exists()
    missing = pymq("auth", "reset", str(tmp_path / "nothing"), "--write", str(file))
    assert missing.code == EXIT_USAGE and "config/auth.json is missing" in missing.err and not file.exists()
    store = tmp_path / "store"
    (store / "config").mkdir(parents=True)
    table = JsonTable(RealFiles(), f"{store}/config/auth.json")
    table.save({"users": {"root": {"password": "old", "userType": "Super", "userStatus": "disable"}}, "acls": {}})
    record = shown(pymq("auth", "reset", str(store), "--name", "root", "--write", str(file), "-o", "json")).json()
    assert_documented("auth reset", record)
    root = from_json(JsonTable(RealFiles(), f"{store}/config/auth.json").load()).users.get("root")
    assert root is not None and root.is_administrator
    assert root.secret.reveal() == Credentials.from_file(file).reveal()
    assert reset_administrator(RealFiles(), str(store), "other", "secret") is True
