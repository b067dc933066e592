"""``pymq console``: where it may listen, which clusters it shows, and a clean stop."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from pymq.cli import main as cli
from pymq.cli.console.command import own_credentials
from pymq.errors import EXIT_NOT_FOUND, EXIT_USAGE, UsageError

DEADLINE_S = 60


def status_of(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=DEADLINE_S) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--behind-proxy"], "--behind-proxy and --public-url go together"),
        (["--public-url", "https://mq.example.org"], "--behind-proxy and --public-url go together"),
        (["--host", "0.0.0.0"], "PYMQ_TLS_SERVER_CERT_PATH"),
        (["--behind-proxy", "--public-url", "http://mq.example.org"], "without TLS"),
        (["--behind-proxy", "--public-url", "ftp://x", "--insecure"], "ftp://x"),
        (["--namesrv", "no port"], "no port"),
        (["--memory-budget", "31MB"], "not between 32.0 MB and 64.0 GB"),
        (["--memory-budget", "999999999999999999TB"], "not between"),
        (["--memory-budget", "much"], "not a size"),
    ],
)
def test_what_can_not_be_served_is_refused(options: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["console", "--port", "0", *options]) == EXIT_USAGE
    assert text in capsys.readouterr().err


def test_an_unknown_context_is_not_found(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["console", "--port", "0", "--with", "nowhere"]) == EXIT_NOT_FOUND
    assert "no context 'nowhere'" in capsys.readouterr().err


def test_own_requests_are_signed_as_commands_sign_theirs(tmp_path: Path) -> None:
    file = tmp_path / "keys.yml"
    file.touch(mode=0o600)
    file.write_text("accessKey: of-prod\nsecretKey: x\n")
    contexts, references = ["prod", "test"], {"prod": f"file:{file}"}
    env = {"PYMQ_ACCESS_KEY": "of-env", "PYMQ_SECRET_KEY": "y"}
    found = own_credentials(contexts, references, env)
    assert {name: one.access_key for name, one in found.items()} == {"prod": "of-prod", "test": "of-env"}
    assert list(own_credentials(contexts, references, {})) == ["prod"]
    with pytest.raises(UsageError, match="PYMQ_SECRET_KEY"):
        own_credentials(contexts, {}, {"PYMQ_ACCESS_KEY": "of-env"})


def test_it_serves_several_contexts_and_stops_cleanly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYMQ_CONTEXTS", str(tmp_path / "contexts.toml"))
    for name, port in (("prod", 1), ("test", 2)):
        adding = [sys.executable, "-m", "pymq", "context", "add", name, "--namesrv", f"127.0.0.1:{port}"]
        subprocess.run(adding, check=True, timeout=DEADLINE_S, capture_output=True)
    command = [sys.executable, "-m", "pymq", "console", "--port", "0", "--json", "--metrics-port", "0"]
    command += ["--with", "prod", "--with", "test"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        assert ready["contexts"] == ["prod", "test"] and ready["pid"] == process.pid
        assert status_of(f"{ready['console']}/at/test/about") == 200
        assert status_of(f"{ready['console']}/at/other/brokers") == 404
        assert status_of(f"http://{ready['metrics']}/metrics") == 200
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=DEADLINE_S)
        assert process.returncode == 0 and "Traceback" not in errors
