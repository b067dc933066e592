"""Contexts: their file, the order in which a command looks for its cluster, and the commands."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from pymq.cli import main as cli
from pymq.cli.common.context_choice import chosen
from pymq.cli.common.context_file import load_contexts
from pymq.errors import EXIT_FAILED, EXIT_NOT_FOUND, EXIT_OK, EXIT_PARTIAL, EXIT_UNREACHABLE, EXIT_USAGE, ConfigError
from pymq.testing.standalone import StandaloneProcess
from tests.cli.conftest import Pymq

NOWHERE = "127.0.0.1:1"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty home for configuration; no variable names a cluster."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    monkeypatch.delenv("PYMQ_CONTEXT", raising=False)
    return tmp_path


def test_the_first_of_flag_environment_and_context_counts(home: Path) -> None:
    env = {"XDG_CONFIG_HOME": str(home)}
    assert chosen(None, env)[:2] == ("127.0.0.1:9876", "default")
    for name in ("one", "two", "three"):
        assert cli.run(["context", "add", name, "--namesrv", f"{name}:1, {name}:2"]) == EXIT_OK
    assert chosen(None, env)[:2] == ("one:1;one:2", "context one (current)")
    assert cli.run(["context", "use", "two"]) == EXIT_OK
    assert chosen(None, env).namesrv == "two:1;two:2"
    assert chosen(None, {**env, "PYMQ_CONTEXT": "three"})[:2] == ("three:1;three:2", "context three (PYMQ_CONTEXT)")
    both = {**env, "PYMQ_CONTEXT": "three", "NAMESRV_ADDR": "env:1"}
    assert chosen(None, both)[:2] == ("env:1", "NAMESRV_ADDR")
    assert chosen("one", both)[:2] == ("one:1;one:2", "context one (--context)")


def test_commands_use_the_context(
    home: Path, server: StandaloneProcess, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["context", "add", "away", "--namesrv", NOWHERE]) == EXIT_OK
    assert cli.run(["context", "add", "here", "--namesrv", server.namesrv]) == EXIT_OK
    assert cli.run(["cluster", "list"]) == EXIT_UNREACHABLE
    assert cli.run(["cluster", "list", "--context", "here"]) == EXIT_OK
    assert cli.run(["--context", "here", "cluster", "list"]) == EXIT_OK
    assert cli.run(["cluster", "list", "--context", "here", "--namesrv", NOWHERE]) == EXIT_UNREACHABLE
    monkeypatch.setenv("NAMESRV_ADDR", NOWHERE)
    assert cli.run(["cluster", "list", "--context", "here"]) == EXIT_OK
    monkeypatch.setenv("PYMQ_CONTEXT", "here")
    assert cli.run(["cluster", "list"]) == EXIT_UNREACHABLE
    monkeypatch.delenv("NAMESRV_ADDR")
    assert cli.run(["cluster", "list"]) == EXIT_OK
    capsys.readouterr()
    assert cli.run(["cluster", "list", "--context", "nope"]) == EXIT_NOT_FOUND
    assert "there are away, here" in capsys.readouterr().err


def test_the_file_is_the_users_alone(home: Path) -> None:
    assert cli.run(["context", "add", "one", "--namesrv", NOWHERE]) == EXIT_OK
    path = home / "pymq" / "contexts.toml"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [entry.name for entry in path.parent.iterdir()] == ["contexts.toml"]


def test_contexts_are_listed_shown_changed_and_removed(pymq: Pymq, home: Path) -> None:
    assert "makes one" in pymq("context", "list").err
    assert pymq("context", "add", "one", "--namesrv", "a:1", "--dry-run").out.startswith("would write")
    assert pymq("context", "list", "-o", "json").json() == []
    assert pymq("context", "add", "one", "--namesrv", "a:1").code == EXIT_OK
    assert pymq("context", "add", "one", "--namesrv", "b:1").code == EXIT_USAGE
    assert pymq("context", "add", "one", "--namesrv", "b:1", "--replace").code == EXIT_OK
    assert pymq("context", "add", "two", "--namesrv", "c:1", "--use").code == EXIT_OK
    assert pymq("context", "list", "-o", "json").json() == [
        {"name": "one", "namesrv": "b:1", "credentials": None, "brokers": [], "current": False},
        {"name": "two", "namesrv": "c:1", "credentials": None, "brokers": [], "current": True},
    ]
    shown = pymq("context", "show", "one", "-o", "json").json()
    assert (shown["namesrv"], shown["origin"]) == ("b:1", "named")
    removed = pymq("context", "remove", "two")
    assert removed.code == EXIT_OK and "no context is the current one" in removed.err
    assert pymq("context", "use", "two").code == EXIT_NOT_FOUND


def test_a_broker_that_no_name_server_lists_any_more_is_missed(
    pymq: Pymq, home: Path, server: StandaloneProcess
) -> None:
    """What is left of a cluster does not look like all of it; without the list, and for other name servers, it does."""
    named = "broker-a; broker-z;broker-a"
    assert pymq("context", "add", "here", "--namesrv", server.namesrv, "--brokers", named).code == EXIT_OK
    assert pymq("context", "show", "-o", "json").json()["brokers"] == ["broker-a", "broker-z"]
    assert "broker-a, broker-z" in pymq("context", "show").out
    for command in (["cluster", "list"], ["topic", "list"], ["group", "list"], ["group", "lag"]):
        done = pymq(*command, "--context", "here")
        assert done.code == EXIT_PARTIAL, command
        assert "broker-z" in done.err and "no name server lists it" in done.err and "broker-a" not in done.err
        assert pymq(*command, "--namesrv", f"{server.namesrv};{NOWHERE}").code == EXIT_OK, "not the context's"
    asked = pymq("doctor", "--context", "here", "--check", "missing")
    assert asked.code == EXIT_FAILED and "PROBLEM  missing: broker-z" in asked.out
    checked = pymq("check", "broker", "--context", "here")
    assert checked.code == 2 and "broker-z" in checked.out
    assert pymq("context", "add", "here", "--namesrv", server.namesrv, "--replace").code == EXIT_OK
    assert pymq("cluster", "list", "--context", "here").code == EXIT_OK


@pytest.mark.parametrize("name", ["", "a b", "a/b", "x" * 65, "a\nb", "é"])
def test_other_names_are_refused(name: str, pymq: Pymq, home: Path) -> None:
    assert pymq("context", "add", name, "--namesrv", "a:1").code == EXIT_USAGE


@pytest.mark.parametrize(
    "text",
    [
        "= 1",
        "current = 1",
        "contexts = 1",
        "[contexts]\na = 1",
        "[contexts.a]\nnamesrv = 1",
        "[contexts.a]\nnamesrv = 'a:1'\nbrokers = 1",
        "\xff",
    ],
)
def test_a_file_that_is_wrong_is_named(text: str, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = home / "pymq" / "contexts.toml"
    path.parent.mkdir()
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigError, match=r"contexts\.toml"):
        load_contexts({"XDG_CONFIG_HOME": str(home)})
    assert cli.run(["cluster", "list"]) in (EXIT_USAGE, EXIT_FAILED)
    assert str(path) in capsys.readouterr().err
    assert cli.run(["cluster", "list", "--namesrv", NOWHERE]) != EXIT_OK
