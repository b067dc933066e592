"""A 4.x ACL file is read at the start, followed while the server runs, and never replaced by one that is broken."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from pymq.config import load_broker_config, load_namesrv_config
from pymq.config.security import HARMLESS_CODES
from pymq.errors import ConfigError
from pymq.security.acl_file import AclFile
from pymq.security.credentials import Credentials
from pymq.security.security import open_security, server_credentials
from pymq.wire.codes import RequestCode as Code

ONE = b"accounts:\n- accessKey: reader1\n  secretKey: secret-1\n"
TWO = ONE + b"- accessKey: reader2\n  secretKey: secret-2\n"
BROKEN = ONE + b"- accessKey: [reader2]\n"


def write(path: Path, content: bytes, mode: int = 0o600) -> str:
    path.write_bytes(content)
    path.chmod(mode)
    return str(path)


def test_a_broken_file_is_refused_with_file_line_and_column(tmp_path: Path) -> None:
    path = write(tmp_path / "acl.yml", BROKEN)
    with pytest.raises(ConfigError, match=rf"^plainAclFile: {path}: line 4, column 14: "):
        AclFile(path, "C", None).load()


def test_a_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "acl.yml", ONE, 0o640)
    with pytest.raises(ConfigError, match=r"mode 0640, others than its owner can use it: run chmod 600"):
        AclFile(path, "C", None).load()


def test_a_missing_file_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"/nowhere/acl.yml can't be read: No such file"):
        AclFile("/nowhere/acl.yml", "C", None).load()


def test_a_change_makes_another_guard(tmp_path: Path) -> None:
    file = AclFile(path := write(tmp_path / "acl.yml", ONE), "C", None)
    assert [user.name for user in file.load().users] == ["reader1"]
    assert file.look() is None
    write(Path(path), TWO)
    guard = file.look()
    assert guard is not None and [user.name for user in guard.users] == ["reader1", "reader2"]
    assert file.look() is None


def test_the_old_rules_stay_while_the_file_is_broken_and_that_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = AclFile(path := write(tmp_path / "acl.yml", ONE), "C", None)
    file.load()
    for content, mode, text in ((BROKEN, 0o600, "line 4, column 14"), (TWO, 0o644, "mode 0644")):
        caplog.clear()
        write(Path(path), content, mode)
        assert file.look() is None and file.look() is None
        (record,) = caplog.records
        assert record.levelno == logging.ERROR and "the old rules stay" in record.message and text in record.message
    write(Path(path), TWO)
    guard = file.look()
    assert guard is not None and len(guard.users) == 2


@pytest.mark.parametrize("content", [b"", b"\n", b"accounts:\n", b"accounts: []\n"])
def test_a_file_that_lets_nobody_in_is_broken(tmp_path: Path, content: bytes) -> None:
    """An editor that writes a file again leaves it empty for a moment."""
    file = AclFile(path := write(tmp_path / "acl.yml", ONE), "C", None)
    file.load()
    write(Path(path), content)
    assert file.look() is None
    with pytest.raises(ConfigError, match=r"^plainAclFile: .*acl.yml: the file has no account and no white list"):
        AclFile(path, "C", None).load()
    write(Path(path), TWO)
    assert file.look() is not None


def test_no_secret_of_a_broken_file_is_said(tmp_path: Path) -> None:
    path = write(tmp_path / "acl.yml", b"accounts:\n- accessKey: reader1\n  secretKey: [hunter22-hunter22]\n")
    with pytest.raises(ConfigError) as caught:
        AclFile(path, "C", None).load()
    assert "hunter22" not in str(caught.value)


def test_an_account_with_the_name_of_the_servers_own_is_refused(tmp_path: Path) -> None:
    server = Credentials("reader1", "secret-of-servers").server_user()
    with pytest.raises(ConfigError, match="the account reader1 is the servers' own one"):
        AclFile(write(tmp_path / "acl.yml", ONE), "C", server).load()


def test_settings_say_what_is_missing(tmp_path: Path) -> None:
    for load in (load_broker_config, load_namesrv_config):
        with pytest.raises(ConfigError, match=r"aclEnable=true needs the file of accounts: set plainAclFile="):
            load(None, {"aclEnable": "true"})
    config = load_broker_config(None, {"innerCredentialsFile": str(tmp_path / "none")})
    with pytest.raises(ConfigError, match=r"innerCredentialsFile: .*none can't be read"):
        server_credentials(config)
    assert open_security(config, "C", None) is None


ON = {"authenticationEnabled": "true", "authorizationEnabled": "true"}
TABLE = b'{"users": {"ada": {"password": "ada-secret", "userType": "Super"}}, "acls": {}}'


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (
            {"authenticationEnabled": "true", "bindAddress": "192.0.2.1"},
            "without authorizationEnabled=true: every user may",
        ),
        (
            {"authorizationEnabled": "true", "bindAddress": "192.0.2.1"},
            "without authenticationEnabled=true: nothing proves",
        ),
        ({"authorizationEnabled": "true", "aclEnable": "true", "plainAclFile": "x"}, "two sources of users"),
        ({"authenticationWhitelist": "28;105"}, "write request codes separated by commas"),
        ({"authorizationWhitelist": "SEND"}, "write request codes separated by commas"),
        ({**ON, "aclEnable": "true", "plainAclFile": "x"}, "two sources of users"),
        (
            {**ON, "innerCredentialsFile": "x", "innerClientAuthenticationCredentials": "file:x"},
            "the same thing twice: keep one",
        ),
        ({**ON, "initAuthenticationUser": '{"username": "u", "password": "p-secret"}'}, "on the command line"),
    ],
)
def test_security_settings_that_exclude_each_other(settings: dict[str, str], problem: str) -> None:
    for load in (load_broker_config, load_namesrv_config):
        with pytest.raises(ConfigError, match=problem) as caught:
            load(None, settings)
        assert "p-secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "warnings"),
    [
        ({"authenticationEnabled": "true"}, ["every user may do everything"]),
        ({"authorizationEnabled": "true"}, ["may do what the user may whose name it gives"]),
        (
            {"authenticationEnabled": "true", "bindAddress": "192.0.2.1", "insecure": "true"},
            ["every user may do everything", "requests are checked by half"],
        ),
        ({"authorizationWhitelist": "105"}, ["have no effect: authenticationEnabled is off"]),
        ({**ON, "authenticationWhitelist": "46, 105,106", "authorizationWhitelist": " 46,105 , 106 "}, []),
        (
            {**ON, "authenticationWhitelist": "28,3005", "authorizationWhitelist": "17,28"},
            [
                "both name 28: every host that reaches the port may send these requests without a user",
                "authorizationWhitelist names 17: every user may send",
                "names 3005, and authorizationWhitelist does not",
            ],
        ),
    ],
)
def test_what_is_opened_is_warned_about(settings: dict[str, str], warnings: list[str]) -> None:
    for load in (load_broker_config, load_namesrv_config):
        found = load(None, settings).warnings
        assert len(found) == len(warnings) and all(text in one for text, one in zip(warnings, found, strict=True)), (
            found
        )


def test_the_harmless_requests_need_no_right_or_show_addresses_alone() -> None:
    names = (Code.CHECK_CLIENT_CONFIG, Code.GET_ROUTEINFO_BY_TOPIC, Code.GET_BROKER_CLUSTER_INFO)
    assert frozenset(names) == HARMLESS_CODES


def test_a_configuration_file_with_a_secret_is_its_owners_alone(tmp_path: Path) -> None:
    text = b'innerClientAuthenticationCredentials={"accessKey":"s","secretKey":"s-secret"}\n'
    path = write(tmp_path / "broker.conf", text, 0o640)
    with pytest.raises(ConfigError, match="holds a secret") as caught:
        load_broker_config(path)
    assert "s-secret" not in str(caught.value)
    config = load_broker_config(write(tmp_path / "private.conf", text))
    credentials = server_credentials(config)
    assert credentials is not None and credentials.access_key == "s"
    assert "s-secret" not in str(config.as_properties())


@pytest.mark.parametrize(
    "text", ["{", '{"accessKey": "s"}', '{"accessKey": 1, "secretKey": "s-secret"}', "s-secret", "file:/nowhere/x"]
)
def test_credentials_that_can_not_be_used_are_refused_without_a_secret(text: str) -> None:
    config = load_broker_config(None, {})
    config.inner_client_credentials = text
    with pytest.raises(ConfigError, match=r"^innerClientAuthenticationCredentials: ") as caught:
        server_credentials(config)
    assert "s-secret" not in str(caught.value)


def test_a_name_server_follows_a_brokers_users(tmp_path: Path) -> None:
    administrator = write(tmp_path / "root.yml", b"accessKey: root\nsecretKey: root-secret\n")
    path = tmp_path / "auth.json"
    settings = {**ON, "authFile": str(path), "initAuthenticationUser": f"file:{administrator}"}
    config = load_namesrv_config(None, settings)
    security = open_security(config, "*", None)
    assert security is not None and [user.name for user in security.gatekeeper.guard.users] == ["root"]
    write(path, TABLE)
    security.look()
    assert [user.name for user in security.gatekeeper.guard.users] == ["ada"]
    write(path, b'{"users": {"eve": {}}}')
    security.look()
    assert [user.name for user in security.gatekeeper.guard.users] == ["ada"]


@pytest.mark.parametrize(
    ("content", "mode", "problem"),
    [
        (None, 0, "can't be read: No such file"),
        (TABLE, 0o644, "others than its owner can use it"),
        (b"[]", 0o600, "the file is no JSON object"),
        (b"{", 0o600, "the file is not JSON"),
        (b'{"users": {"u": {}}}', 0o600, "the user 'u' can't be used"),
    ],
)
def test_a_file_of_users_that_can_not_be_used_is_refused(
    tmp_path: Path, content: bytes | None, mode: int, problem: str
) -> None:
    path = tmp_path / "auth.json"
    if content is not None:
        write(path, content, mode)
    config = load_namesrv_config(None, {**ON, "authFile": str(path)})
    with pytest.raises(ConfigError, match=rf"^authFile: .*{problem}"):
        open_security(config, "*", None)


def test_a_name_server_with_users_names_their_file() -> None:
    with pytest.raises(ConfigError, match=r"set authFile to a broker's config/auth.json"):
        open_security(load_namesrv_config(None, ON), "*", None)
