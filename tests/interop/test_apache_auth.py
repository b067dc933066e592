"""``pymq auth user``, ``acl`` and ``check`` on a real RocketMQ 5.3.3 that checks its requests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pymq.cli import main as cli
from pymq.errors import EXIT_NOT_FOUND, EXIT_OK, EXIT_REFUSED
from tests.interop.support.apache import ApacheServer

_PACKAGE = "org.apache.rocketmq.auth"
SETTINGS = {
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "authenticationMetadataProvider": f"{_PACKAGE}.authentication.provider.LocalAuthenticationMetadataProvider",
    "authorizationMetadataProvider": f"{_PACKAGE}.authorization.provider.LocalAuthorizationMetadataProvider",
    "initAuthenticationUser": '{"username":"root","password":"root-secret"}',
    "innerClientAuthenticationCredentials": '{"accessKey":"servers","secretKey":"servers-secret"}',
}


def test_users_and_rules_of_a_rocketmq_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root, ada = tmp_path / "root.yml", tmp_path / "ada.yml"
    root.write_text("accessKey: root\nsecretKey: root-secret\n")
    root.chmod(0o600)
    server = ApacheServer(tmp_path / "apache", SETTINGS)
    monkeypatch.setenv("NAMESRV_ADDR", server.namesrv)
    monkeypatch.setenv("PYMQ_CREDENTIALS_FILE", str(root))

    def run(*words: str, code: int = EXIT_OK) -> Any:
        capsys.readouterr()
        found = cli.run([*words, "-o", "json"])
        captured = capsys.readouterr()
        assert found == code, captured.err
        assert "-secret" not in captured.out
        return json.loads(captured.out) if code == EXIT_OK else captured.err

    try:
        run("auth", "user", "create", "ada", "--write", str(ada))
        run("auth", "user", "create", "ada", "--secret-from", f"file:{ada}", code=EXIT_REFUSED)
        run("auth", "user", "update", "ada", "--disable", "--type", "Super")
        shown = run("auth", "user", "show", "ada")
        assert (shown["type"], shown["enabled"]) == ("Super", False)
        run("auth", "user", "update", "ada", "--enable", "--type", "Normal")
        run("auth", "acl", "create", "ada", "Topic:ord*", "-a", "Pub,Sub", "--from", "10.0.0.0/8")
        run("auth", "acl", "create", "ada", "Group:g", "-a", "All", "--deny", "--default")
        run("auth", "acl", "update", "ada", "Topic:ord*", "-a", "Sub")
        rules = {rule["resource"]: rule for rule in run("auth", "acl", "list")}
        assert rules["Topic:ord*"]["actions"] == ["Sub"] and rules["Topic:ord*"]["sources"] == []
        assert (rules["Group:g"]["effect"], rules["Group:g"]["level"]) == ("Deny", "Default")
        assert run("auth", "check", "ada", "Sub", "Topic:orders")["allowed"]
        assert not run("auth", "check", "ada", "Sub", "Group:g")["allowed"]
        run("auth", "acl", "delete", "ada", "Topic:ord*")
        run("auth", "acl", "delete", "ada", "--yes")
        assert run("auth", "acl", "show", "ada") == []
        run("auth", "user", "delete", "ada", "--yes")
        run("auth", "user", "show", "ada", code=EXIT_NOT_FOUND)
        # RocketMQ's broker shows these secrets; PyMQ's commands do not.
        shown = {record["key"]: record["value"] for record in run("config", "show", "uthentication")}
        assert shown["initAuthenticationUser"] == shown["innerClientAuthenticationCredentials"] == "******"
    finally:
        server.stop()
