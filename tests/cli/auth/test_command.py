"""``pymq auth cert``, and commands over TLS by the environment's variables."""

from __future__ import annotations

from pathlib import Path

import pytest

from pymq.client.tls import Tls, tls_context
from pymq.clock import SystemClock
from pymq.errors import EXIT_OK, EXIT_UNREACHABLE, EXIT_USAGE, UsageError
from pymq.testing.standalone import StandaloneProcess
from tests.certificates import certificates
from tests.cli.conftest import Pymq


def test_cert_makes_files_and_says_how_to_use_them(pymq: Pymq, tmp_path: Path) -> None:
    outcome = pymq("auth", "cert", str(tmp_path / "c"), "--name", "broker-a", "--host", "127.0.0.1")
    assert outcome.code == EXIT_OK
    assert "ca.key secret" in outcome.err
    lines = dict(line.split("=", 1) for line in outcome.out.splitlines() if "=" in line)
    assert Path(lines["tls.server.keyPath"]).read_text().startswith("-----BEGIN PRIVATE KEY-----")
    assert Path(lines["export PYMQ_TLS_CLIENT_TRUST_CERT_PATH"]) == (tmp_path / "c" / "ca.pem")
    again = pymq("auth", "cert", str(tmp_path / "c"), "--name", "broker-a")
    assert (again.code, "--replace" in again.err) == (EXIT_USAGE, True)
    assert pymq("auth", "cert", str(tmp_path / "c"), "--name", "broker-a", "--replace").code == EXIT_OK


def test_commands_take_tls_from_the_environment(
    server: StandaloneProcess, pymq: Pymq, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYMQ_TLS_ENABLE", "true")
    monkeypatch.setenv("PYMQ_TLS_CLIENT_TRUST_CERT_PATH", certificates().ca_path)
    outcome = pymq("topic", "list")  # the server's certificate is its own, and proves nothing
    assert (outcome.code, "certificate refused" in outcome.err) == (EXIT_UNREACHABLE, True), outcome.err
    monkeypatch.setenv("PYMQ_TLS_ENABLE", "false")
    assert pymq("topic", "list").code == EXIT_OK


@pytest.mark.parametrize(
    ("variables", "text"),
    [
        ({"PYMQ_TLS_ENABLE": "perhaps"}, "write true or false"),
        ({"PYMQ_TLS_ENABLE": "true", "PYMQ_TLS_CLIENT_TRUST_CERT_PATH": "/nowhere/ca.pem"}, "/nowhere/ca.pem: No such"),
        ({"PYMQ_TLS_ENABLE": "true", "PYMQ_TLS_CLIENT_CERT_PATH": "/c.pem"}, "tls.client.keyPath is not"),
    ],
)
def test_bad_tls_variables_are_named(
    pymq: Pymq, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], text: str
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    outcome = pymq("topic", "list")
    assert outcome.code == EXIT_USAGE
    assert text in outcome.err
    assert len(outcome.err.splitlines()) == 1


def test_a_program_gives_both_files_of_its_certificate() -> None:
    with pytest.raises(UsageError, match="certificate and its private key go together"):
        tls_context(Tls(cert_path="a.pem"), SystemClock())
