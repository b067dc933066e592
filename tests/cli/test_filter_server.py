"""``pymq filter-server`` as a process: its ready line, its end, and what can't be meant."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

from pymq.cli import main as cli
from pymq.cli.filter_option import parse_plugin
from pymq.errors import EXIT_OK, EXIT_UNREACHABLE, EXIT_USAGE, UsageError
from pymq.spark.remote import Remote
from pymq.testing.standalone import StandaloneProcess
from pymq.wire.codes import RequestCode
from pymq.wire.command import request

from .conftest import Pymq
from .test_servers import STOP_TIMEOUT_S, first_line, process

FILLER = "x" * 2000
READ_COUNT = 2500


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


def serving(server: StandaloneProcess, running: subprocess.Popen[str]) -> None:
    """Returns once routes of the broker's topics name the filter server."""
    address = json.loads(first_line(running))["filter_server"]
    asked = {"topic": "TBW102", "acceptStandardJsonOnly": "true"}
    deadline_s = time.monotonic() + STOP_TIMEOUT_S
    with Remote(server.namesrv) as remote:
        while address.encode() not in remote.ask_ok(request(RequestCode.GET_ROUTEINFO_BY_TOPIC, asked)).body:
            assert time.monotonic() < deadline_s, f"no route names {address}"
            time.sleep(0.02)


def test_a_tail_loses_nothing_when_one_of_two_servers_is_killed(
    pymq: Pymq, server: StandaloneProcess, tmp_path: Path
) -> None:
    lines = "".join(f"{number} {FILLER}\n" for number in range(READ_COUNT))
    assert pymq("topic", "create", "tail_served", "--wq", "1").code == EXIT_OK
    assert pymq("send", "tail_served", "--batch", "100", stdin=lines).code == EXIT_OK
    read = ["tail", "tail_served", "-F", "--from", "start", "-o", "raw", "--namesrv", server.namesrv]
    asked = ["--filter", "regex", "--expr", "^[0-9]*[05] ", "--via", "filter-server"]
    refused = pymq(*read, *asked)
    assert refused.code == EXIT_UNREACHABLE and f"pymq filter-server --broker {server.broker}" in refused.err
    start = ["filter-server", "--broker", server.broker, "--json"]
    with process(*start, home=tmp_path) as first, process(*start, home=tmp_path) as second:
        serving(server, first)
        serving(server, second)
        with process(*read, *asked, home=tmp_path) as tail:
            assert tail.stdout is not None
            begun = first_line(tail)
            # The pipe is full and the tail waits: most of the topic is still to be read.
            first.kill()
            got = [int(line.split()[0]) for line in [begun, *tail.stdout]]
            assert tail.wait(STOP_TIMEOUT_S) == EXIT_OK
        assert got == list(range(0, READ_COUNT, 5))
        wrong = pymq(*read, "--filter", "sql92:size >", "--via", "filter-server")
        assert wrong.code != EXIT_OK and "column 7" in wrong.err


def test_the_options_that_name_a_filter() -> None:
    assert parse_plugin(None, None, None) is None
    assert parse_plugin("regex:a:b", None, None) == ("regex", "a:b", None)
    assert parse_plugin("regex", "a:b", "filter-server") == ("regex", "a:b", "filter-server")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("regex", None, None), "write NAME:EXPRESSION"),
        (("regex:a", "b", None), "once"),
        ((None, "a", None), "name it with --filter"),
        ((None, None, "filter-server"), "name it with --filter"),
        (("regex:a", None, "broker"), "only filter-server is possible"),
    ],
)
def test_options_that_can_not_be_meant(arguments: tuple[str | None, str | None, str | None], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        parse_plugin(*arguments)


def test_a_filter_server_runs_one_filter(capsys: pytest.CaptureFixture[str]) -> None:
    via = ["--filter", "regex:a", "--via", "filter-server"]
    assert cli.run(["tail", "T", *via, "--tag", "x"]) == EXIT_USAGE
    assert "--via excludes --tag and --sql" in capsys.readouterr().err
