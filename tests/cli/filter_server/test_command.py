"""``pymq filter-server`` as a process: its ready line, its end, and the options it refuses."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from pymq.cli import main as cli
from pymq.errors import EXIT_OK, EXIT_UNREACHABLE, EXIT_USAGE, UsageError
from pymq.operations.filters import parse_plugin
from pymq.testing.standalone import StandaloneProcess
from tests.cli.common.test_servers import STOP_TIMEOUT_S, first_line, process
from tests.cli.conftest import Pymq


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
        (["--broker", "here"], "is not an address"),
        (["--broker", "b:1", "--host", "0.0.0.0"], "--advertise"),
        (["--broker", "b:1", "--on-error", "panic"], "use one of skip, deliver, stop"),
        (["--broker", "b:1", "--workers", "0"], "--workers"),
        ([], "--broker"),
    ],
)
def test_contradictory_options_are_refused(arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["filter-server", *arguments]) == EXIT_USAGE
    assert text in capsys.readouterr().err


def test_tail_without_a_filter_server_names_the_command_to_start_one(pymq: Pymq, server: StandaloneProcess) -> None:
    assert pymq("topic", "create", "tail_unserved", "--wq", "1").code == EXIT_OK
    assert pymq("send", "tail_unserved", "x").code == EXIT_OK
    outcome = pymq("tail", "tail_unserved", "-F", "--filter", "regex", "--expr", "x", "--via", "filter-server")
    assert outcome.code == EXIT_UNREACHABLE and f"pymq filter-server --broker {server.broker}" in outcome.err


def test_the_options_that_name_a_filter() -> None:
    assert parse_plugin(None, None, None) is None
    assert parse_plugin("regex:a:b", None, None) == ("regex", "a:b", None)
    assert parse_plugin("regex", "a:b", "filter-server") == ("regex", "a:b", "filter-server")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("regex", None, None), "write NAME:EXPRESSION"),
        (("regex:a", "b", None), "one expression"),
        ((None, "a", None), "name it with --filter"),
        ((None, None, "filter-server"), "name it with --filter"),
        (("regex:a", None, "broker"), "only filter-server is possible"),
    ],
)
def test_filter_options_that_contradict_each_other_are_refused(
    arguments: tuple[str | None, str | None, str | None], text: str
) -> None:
    with pytest.raises(UsageError, match=text):
        parse_plugin(*arguments)


def test_a_filter_server_runs_one_filter(capsys: pytest.CaptureFixture[str]) -> None:
    via = ["--filter", "regex:a", "--via", "filter-server"]
    assert cli.run(["tail", "T", *via, "--tag", "x"]) == EXIT_USAGE
    assert "--via excludes --tag and --sql" in capsys.readouterr().err
