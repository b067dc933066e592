"""Every command with ``-o json`` also takes ``--json``."""

from __future__ import annotations

import json

import pytest

from pymq.cli import main as cli
from pymq.errors import EXIT_OK

from .test_main import ALL_COMMANDS


@pytest.mark.parametrize("path", ALL_COMMANDS, ids=" ".join)
def test_every_command_that_prints_json_takes_the_flag(path: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run([*path, "--help"]) == EXIT_OK
    options = capsys.readouterr().out.split("Options:")[1]
    takes_it = "table|json" in options or "text|json" in options
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
