"""``pymq filter-server`` as a process: its ready line, its end, and what can't be meant."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from pymq.cli import main as cli
from pymq.errors import EXIT_OK, EXIT_USAGE

from .test_servers import STOP_TIMEOUT_S, first_line, process


def test_it_starts_without_its_broker_and_stops_cleanly(tmp_path: Path) -> None:
    with process("filter-server", "--broker", "127.0.0.1:1", "--workers", "1", "--json", home=tmp_path) as server:
        ready = json.loads(first_line(server))
        assert ready == {"filter_server": ready["filter_server"], "broker": "127.0.0.1:1", "pid": server.pid}
        assert ready["filter_server"].startswith("127.0.0.1:")
        server.send_signal(signal.SIGTERM)
        assert server.wait(STOP_TIMEOUT_S) == EXIT_OK


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--broker", "here"], "is no address"),
        (["--broker", "b:1", "--host", "0.0.0.0"], "--advertise"),
        (["--broker", "b:1", "--on-error", "panic"], "use one of skip, deliver, stop"),
        (["--broker", "b:1", "--workers", "0"], "--workers"),
        ([], "--broker"),
    ],
)
def test_what_can_not_be_meant_is_refused(arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["filter-server", *arguments]) == EXIT_USAGE
    assert text in capsys.readouterr().err
