"""Completion: the scripts, and the names that a shell gets."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from pymq.cli import main as cli
from pymq.cli.completion.names import KEPT_S, live_names
from pymq.cli.completion.shells import SHELLS, with_shell
from pymq.errors import EXIT_OK, EXIT_USAGE, UnreachableError
from tests.cli.command_tree import leaves
from tests.cli.conftest import Pymq


def completed(words: str, home: Path, **env: str) -> tuple[list[str], str]:
    """Return what bash gets for the last of the words, and stderr."""
    variables = {
        **os.environ,
        "XDG_CACHE_HOME": str(home),
        "XDG_CONFIG_HOME": str(home),
        "_PYMQ_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
        **env,
    }
    result = subprocess.run(
        [sys.executable, "-m", "pymq"], env=variables, capture_output=True, text=True, check=True, timeout=60
    )
    return result.stdout.split(), result.stderr


@pytest.mark.slow
def test_commands_and_live_names_complete(pymq: Pymq, tmp_path: Path) -> None:
    assert pymq("topic", "create", "completion-1").code == EXIT_OK
    assert pymq("topic", "create", "completion-2").code == EXIT_OK
    assert completed("pymq comp", tmp_path)[0] == []
    assert completed("pymq clu", tmp_path)[0] == ["cluster"]
    assert completed("pymq topic describe completion-", tmp_path) == (["completion-1", "completion-2"], "")
    assert completed("pymq tail completion-1 completion-", tmp_path)[0] == ["completion-1", "completion-2"]
    assert completed("pymq topic update x -b broker-", tmp_path)[0] == ["broker-a"]
    assert completed("pymq topic list -c Def", tmp_path)[0] == ["DefaultCluster"]
    assert completed("pymq config set maxMess", tmp_path)[0] == ["maxMessageSize="]
    assert completed("pymq config unset --namesrv-server maxBr", tmp_path)[0] == ["maxBrokers"]


def test_a_cluster_that_is_away_completes_nothing_and_says_nothing(tmp_path: Path) -> None:
    assert completed("pymq topic describe x", tmp_path, NAMESRV_ADDR="127.0.0.1:1") == ([], "")
    assert completed("pymq topic describe --context nope x", tmp_path, NAMESRV_ADDR="") == ([], "")
    assert completed("pymq topic describe --context=nope x", tmp_path, _PYMQ_COMPLETE="nonsense") == ([], "")


def test_names_are_kept_for_some_seconds_and_only_safe_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["orders", "$(reboot)", "a b", "%RETRY%g", "x\x1b[2J", "quote'"]

    async def ask(admin: object) -> list[str]:
        return names

    monkeypatch.setitem(sys.modules["pymq.cli.completion.names"].__dict__["_ASK"], "topic", ask)
    env = {"XDG_CACHE_HOME": str(tmp_path)}
    assert live_names("topic", "a:1", env, lambda: 100.0) == ["orders", "%RETRY%g"]
    names.insert(0, "new")
    assert live_names("topic", "a:1", env, lambda: 100.0 + KEPT_S - 1) == ["orders", "%RETRY%g"]
    assert live_names("topic", "b:1", env, lambda: 100.0)[0] == "new"
    assert live_names("topic", "a:1", env, lambda: 100.0 + KEPT_S)[0] == "new"


def test_a_damaged_cache_is_asked_over(tmp_path: Path) -> None:
    (tmp_path / "pymq").mkdir()
    for path in ("names-topic-x.json",):
        (tmp_path / "pymq" / path).write_text("{")
    with pytest.raises(UnreachableError):
        live_names("topic", "127.0.0.1:1", {"XDG_CACHE_HOME": str(tmp_path)})


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_has_a_script(
    shell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SHELL", f"/usr/bin/{shell}")
    assert cli.run(["--show-completion"]) == EXIT_OK
    script = capsys.readouterr().out
    assert "_PYMQ_COMPLETE" in script and f"complete_{shell}" in script
    assert cli.run(["--install-completion", shell]) == EXIT_OK
    assert [path for path in tmp_path.rglob("*pymq*") if path.is_file() and script.strip() in path.read_text()]


def test_another_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["--show-completion", "tcsh"]) == EXIT_USAGE
    assert "bash, zsh, fish" in capsys.readouterr().err
    assert with_shell(["--show-completion"], {}) == ["--show-completion", "bash"]


KINDS = [
    ("topic describe", "name", "topic"),
    ("topic create", "name", None),
    ("group lag", "topic", "topic"),
    ("group describe", "name", "group"),
    ("broker", "name", None),
    ("broker status", "broker", "broker"),
    ("context use", "name", "context"),
    ("config set", "changes", "setting="),
    ("topic list", "output", None),
]


@pytest.mark.parametrize(("path", "name", "kind"), KINDS)
def test_what_arguments_name(path: str, name: str, kind: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pymq.cli.completion.names.complete_names", lambda kind, ctx, incomplete: [f"a {kind}"])
    command = dict(leaves())[path]
    [param] = [one for one in command.params if one.name == name]
    offered = [item.value for item in param.shell_complete(typer.Context(command), "a")]
    assert offered == ([] if kind is None else [f"a {kind}"])
