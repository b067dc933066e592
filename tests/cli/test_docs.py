"""docs/cli.md names every command and exit code, and every command line in README and docs is valid."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pymq import errors
from pymq.cli import main as cli
from tests.cli.command_tree import ALL_COMMANDS

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "cli.md").read_text()
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])


def test_every_command_is_documented() -> None:
    for path in ALL_COMMANDS:
        assert f"`pymq {path[0]}" in TEXT
        assert f"`{path[-1]}`" in TEXT or f"{path[-1]}`" in TEXT, path


def test_every_exit_code_is_documented() -> None:
    codes = [value for name, value in vars(errors).items() if name.startswith("EXIT_")]
    for code in [*codes, cli.EXIT_INTERRUPTED]:
        assert f"\n| {code} |" in TEXT


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_on_a_documentation_page_exists(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = page.read_text()
    spans = re.findall(r"`pymq ([^`\n]+)`", text)
    for words in [line.split() for line in [*re.findall(r"^pymq (.+)$", text, re.MULTILINE), *spans]]:
        path = next((path for path in (words[:3], words[:2], words[:1]) if path in ALL_COMMANDS), None)
        if path is None:
            continue
        assert cli.run([*path, "--help"]) == errors.EXIT_OK
        known = capsys.readouterr().out
        options = [re.split(r"[=,\])]", word)[0] for word in words if re.match(r"\[?--[a-z]", word)]
        for option in options:
            assert option.lstrip("[") in known, f"{page.name}: pymq {' '.join(words)}: {option}"
