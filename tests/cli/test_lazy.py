"""Options that commands get without naming them: ``--json`` and ``--timeout``."""

from __future__ import annotations

import json

import pytest

from pymq.cli import main as cli
from pymq.cli.common.options import DEFAULT_TIMEOUT_S, request_timeout_s
from pymq.errors import EXIT_OK, EXIT_UNREACHABLE, EXIT_USAGE
from tests.cli.command_tree import ALL_COMMANDS

# They take name servers, and don't work through the admin client.
OWN_CLIENTS = {
    "context",
    "bench",
    "console",
    "filter",
    "pipeline",
    "proxy",
    "send",
    "spark-export",
    "spark-sql",
    "tail",
}


@pytest.mark.parametrize("path", ALL_COMMANDS, ids=" ".join)
def test_every_command_that_prints_json_takes_the_flag(path: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run([*path, "--help"]) == EXIT_OK
    options = capsys.readouterr().out.split("Options:")[1]
    takes_it = "|json" in options
    assert takes_it == ("The same as -o json." in options)


@pytest.mark.parametrize(
    ("arguments", "is_json"),
    [([], False), (["--json"], True), (["-o", "json"], True), (["--json", "-o", "table"], False)],
)
def test_the_flag_is_the_option(arguments: list[str], is_json: bool, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["filter", "list", *arguments]) == EXIT_OK
    text = capsys.readouterr().out
    assert text.startswith("[") == is_json
    if is_json:
        assert "sql92" in [record["name"] for record in json.loads(text)]


@pytest.mark.parametrize("path", ALL_COMMANDS, ids=" ".join)
def test_every_admin_command_takes_a_timeout(path: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run([*path, "--help"]) == EXIT_OK
    options = capsys.readouterr().out.split("Options:")[1]
    is_admin = "--namesrv HOST:PORT" in options and path[0] not in OWN_CLIENTS and path != ["broker"]
    assert is_admin <= ("--timeout SECONDS" in options)


@pytest.mark.parametrize("value", ["0", "0.09", "3601", "nan"])
def test_a_timeout_out_of_range_is_refused(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["group", "list", "--timeout", value]) == EXIT_USAGE
    assert "0.1 to 3600 seconds" in capsys.readouterr().err


def test_the_timeout_holds_for_one_command() -> None:
    assert cli.run(["group", "list", "--timeout", "7", "--namesrv", "127.0.0.1:1"]) == EXIT_UNREACHABLE
    assert request_timeout_s.get() == 7
    assert cli.run(["group", "list", "--namesrv", "127.0.0.1:1"]) == EXIT_UNREACHABLE
    assert request_timeout_s.get() == DEFAULT_TIMEOUT_S


# Commands that look, send, run a server, or write only what they are told to make.
CHANGE_NOTHING_THERE = {
    *(
        "auth",
        "standalone",
        "namesrv",
        "broker",
        "filter-server",
        "exporter",
        "console",
        "top",
        "doctor",
        "stats",
        "lite",
        "tail",
        "send",
        "bench",
        "mirror",
        "pipeline",
        "proxy",
        "spark-prepare",
        "spark-sql",
        "docs",
        "conf",
    ),
    *("check", "filter", "mirror", "stats"),
    *(
        "broker status",
        "cluster list",
        "cluster clients",
        "cluster shards",
        "raft status",
        "raft secret",
        "context list",
        "context show",
        "config show",
        "config diff",
        "config check",
    ),
    *("topic list", "topic describe", "topic route", "topic stats"),
    "topic order",  # sets one value of name servers, as namesrv kv set does
    *("group list", "group describe", "group lag", "group members", "group client"),
    *("offset show", "dlq list", "dlq show", "dlq export", "message get", "message query", "message trace"),
    *("store verify", "store inspect", "store dump", "store repair"),
}


@pytest.mark.parametrize("path", ALL_COMMANDS, ids=" ".join)
def test_every_command_that_changes_something_has_a_dry_run(
    path: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    if (path[0] in CHANGE_NOTHING_THERE and path[0] != "broker") or " ".join(path) in CHANGE_NOTHING_THERE:
        return
    assert cli.run([*path, "--help"]) == EXIT_OK
    assert "--dry-run" in capsys.readouterr().out
