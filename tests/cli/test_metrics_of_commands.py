"""Metrics of commands without a configuration file: TLS and the token come from the environment, in each of them."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pymq.cli.common.serving_metrics import (
    ALLOWED_HOSTS_VARIABLE,
    TOKEN_FILE_VARIABLE,
    metrics_place,
    metrics_place_of_command,
    serving_metrics,
)
from pymq.cli.exporter.names import Names
from pymq.cli.exporter.serve import View
from pymq.clock import SystemClock
from pymq.config import load_broker_config, load_namesrv_config
from pymq.config.environment import variable_of
from pymq.errors import ConfigError
from tests.certificates import certificates, mutual_tls_settings
from tests.tidy.sources import ROOT

Load = Callable[[str | None, dict[str, str]], Any]
DEADLINE_S = 30.0
TOKEN = "a-token"


async def ask(url: str, context: ssl.SSLContext | None, token: str = "", host: str = "localhost") -> bytes:
    """Return the first line of the answer; empty when the connection is closed."""
    address, port = url.rpartition("://")[2].split(":")
    reader, writer = await asyncio.open_connection(address, int(port), ssl=context)
    shown = f"Authorization: Bearer {token}\r\n" if token else ""
    writer.write(f"GET /metrics HTTP/1.1\r\nHost: {host}\r\n{shown}Connection: close\r\n\r\n".encode())
    try:
        async with asyncio.timeout(DEADLINE_S):
            return await reader.readline()
    except ConnectionError:
        return b""
    finally:
        writer.close()


def test_the_environment_gives_tls_and_a_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = certificates()
    token = tmp_path / "token"
    token.write_text(f"{TOKEN}\n")
    token.chmod(0o600)
    monkeypatch.setenv(TOKEN_FILE_VARIABLE, str(token))
    monkeypatch.setenv("PYMQ_TLS_SERVER_MODE", "enforcing")
    monkeypatch.setenv("PYMQ_TLS_SERVER_CERT_PATH", str(files.server.cert_path))
    monkeypatch.setenv("PYMQ_TLS_SERVER_KEY_PATH", str(files.server.key_path))
    trusting = ssl.create_default_context(cafile=files.ca_path)

    async def scenario() -> None:
        place = metrics_place_of_command("127.0.0.1", 0)
        async with serving_metrics(place, View(Names.pymq, SystemClock())) as url:
            assert url.startswith("https://")
            assert b" 401 " in await ask(url, trusting)
            assert b" 401 " in await ask(url, trusting, TOKEN[:-1])
            assert b" 200 " in await ask(url, trusting, TOKEN)
            assert await ask(url, None, TOKEN) == b"", "a plain connection is closed"

    asyncio.run(scenario())


def test_without_a_port_nothing_is_served_and_bad_files_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TOKEN_FILE_VARIABLE, str(tmp_path / "missing"))
    assert metrics_place_of_command("127.0.0.1", None) is None
    with pytest.raises(ConfigError, match=r"metricsTokenFile: .*missing can't be read"):
        metrics_place_of_command("127.0.0.1", 0)


@pytest.mark.parametrize(
    ("has_token", "text"), [(False, "every host that reaches the port can read them"), (True, "their token is not")]
)
def test_metrics_that_other_hosts_can_read_are_warned_about(
    has_token: bool, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if has_token:
        token = tmp_path / "token"
        token.write_text(TOKEN)
        token.chmod(0o600)
        monkeypatch.setenv(TOKEN_FILE_VARIABLE, str(token))
    for host in ("127.0.0.1", "::1", "localhost"):
        metrics_place_of_command(host, 0)
    assert capsys.readouterr().err == ""
    metrics_place_of_command("0.0.0.0", 0)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"pymq: warning: metrics on 0.0.0.0: {text}")


@pytest.mark.parametrize("load", [load_broker_config, load_namesrv_config])
def test_metrics_of_a_server_that_other_hosts_can_read_are_warned_about(load: Load) -> None:
    elsewhere = {"metricsExporterType": "PROM", "metricsPromExporterHost": "192.0.2.7"}
    (warning,) = load(None, elsewhere).warnings
    assert warning.startswith("metrics on 192.0.2.7: every host")
    own = {"metricsExporterType": "PROM", "bindAddress": "192.0.2.8", "insecure": "true"}
    assert load(None, own).warnings[-1].startswith("metrics on 192.0.2.8: every host")
    assert load(None, {"metricsExporterType": "PROM"}).warnings == []


@pytest.mark.parametrize("load", [load_broker_config, load_namesrv_config])
def test_metrics_of_a_server_that_checks_requests_are_not_open_to_other_hosts(load: Load, tmp_path: Path) -> None:
    keys = {"metricsExporterType": "PROM", "authenticationEnabled": "true", "authorizationEnabled": "true"}
    elsewhere = {**keys, "metricsPromExporterHost": "192.0.2.7"}
    with pytest.raises(ConfigError, match=r"while requests are checked: name a file with a token \(metricsTokenFile"):
        load(None, elsewhere)
    assert load(None, keys).warnings == []
    assert load(None, {"metricsPromExporterHost": "192.0.2.7", **keys, "metricsExporterType": "DISABLE"}).warnings == []
    (warning,) = load(None, {**elsewhere, "insecure": "true"}).warnings
    assert "every host that reaches the port can read them" in warning
    (warning,) = load(None, {**elsewhere, "metricsTokenFile": str(tmp_path / "token")}).warnings
    assert "their token is not encrypted" in warning
    assert load(None, elsewhere | mutual_tls_settings()).warnings == []


def test_metrics_of_a_command_that_checks_requests_are_not_open_to_other_hosts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ConfigError, match="while requests are checked"):
        metrics_place_of_command("192.0.2.7", 0, is_secured=True)
    metrics_place_of_command("127.0.0.1", 0, is_secured=True)
    assert capsys.readouterr().err == ""
    metrics_place_of_command("192.0.2.7", 0, is_secured=True, is_insecure=True)
    assert "every host that reaches the port can read them" in capsys.readouterr().err
    token = tmp_path / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    monkeypatch.setenv(TOKEN_FILE_VARIABLE, str(token))
    metrics_place_of_command("192.0.2.7", 0, is_secured=True)
    assert "their token is not encrypted" in capsys.readouterr().err


def test_names_that_are_listed_are_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ALLOWED_HOSTS_VARIABLE, " metrics.example , other.example")

    async def scenario() -> None:
        place = metrics_place_of_command("127.0.0.1", 0)
        assert place is not None and place.own_hosts == ("metrics.example", "other.example")
        async with serving_metrics(place, View(Names.pymq, SystemClock())) as url:
            for host, status in (("metrics.example:5557", b" 200 "), ("evil.example", b" 421 ")):
                assert status in await ask(url, None, host=host)

    asyncio.run(scenario())
    config = load_namesrv_config(None, {"metricsExporterType": "PROM", "metricsAllowedHosts": "a.example,b"})
    found = metrics_place(config, "127.0.0.1")
    assert found is not None and found.own_hosts == ("a.example", "b")
    for text in ("a.example:5557", "http://a", "a b"):
        with pytest.raises(ConfigError, match="write host names without ports"):
            load_namesrv_config(None, {"metricsAllowedHosts": text})


def test_the_variable_is_that_of_the_servers_setting() -> None:
    assert variable_of("metricsTokenFile") == TOKEN_FILE_VARIABLE
    assert variable_of("metricsAllowedHosts") == ALLOWED_HOSTS_VARIABLE


def test_no_command_serves_metrics_beside_these_rules() -> None:
    """Who makes a place of its own forgets TLS and token."""
    made = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "pymq").rglob("*.py")
        if re.search(r"\bMetrics(Place|Endpoint)\(\s*\w", path.read_text(encoding="utf-8"))
    }
    assert made == {
        "pymq/cli/common/serving_metrics.py",
        "pymq/cli/pipeline/command.py",
        "pymq/spark/session/query_metrics.py",  # a call of a program, which gives the token's file
    }
