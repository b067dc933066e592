"""A 4.x ACL file is read at the start, followed while the server runs, and never replaced by one that is broken."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from pymq.config import load_broker_config, load_namesrv_config
from pymq.errors import ConfigError
from pymq.security.acl_file import AclFile
from pymq.security.credentials import Credentials
from pymq.security.security import open_security, server_credentials

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
