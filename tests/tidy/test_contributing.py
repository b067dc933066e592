"""Everything that CONTRIBUTING.md names exists: files, folders, tests, modules, classes, scripts and commands."""

from __future__ import annotations

import importlib
import re
from functools import reduce

import pytest

from pymq.cli import main as cli
from pymq.errors import EXIT_OK
from tests.tidy.sources import ROOT

TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
SPANS = sorted(set(re.findall(r"`([^`\n]+)`", TEXT)))
SHELL = "".join(re.findall(r"^```sh\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL))
WORDS = [*SPANS, *re.sub(r"#.*", "", SHELL).split()]
TOPS = {path.name for path in ROOT.iterdir()} | {".ci", ".github"}
# What scripts/install puts there depends on the extras: the tests have fewer than `dev`.
TOPS -= {".venv"}
TOOLS = sorted({word.removeprefix(".venv/bin/") for word in WORDS if word.startswith(".venv/bin/")} - {"python"})

PATHS = sorted({word for word in WORDS if word.partition("/")[0] in TOPS and not {" ", "<"} & set(word)} - {"pymq"})
NAMES = [word for word in SPANS if re.fullmatch(r"(pymq|tests)(\.\w+)+", word)]
COMMANDS = [word.split() for word in SPANS if re.match(r"pymq [a-z]", word)]
RECIPES = re.findall(r"^### (.*)$", TEXT, re.MULTILINE)


def resolved(name: str) -> object:
    """Return the module, or the member of a module, of a dotted name. Raises ImportError or AttributeError."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        module = ".".join(parts[:count])
        try:
            found = importlib.import_module(module)
        except ModuleNotFoundError as error:
            if not (error.name and module.startswith(error.name)):
                raise
            continue
        return reduce(getattr, parts[count:], found)
    raise ImportError(f"there is no module {name}")


@pytest.mark.parametrize("path", PATHS)
def test_paths_are_there(path: str) -> None:
    file, _, test = path.partition("::")
    assert (ROOT / file).exists()
    assert not test or f"def {test}(" in (ROOT / file).read_text(encoding="utf-8")


@pytest.mark.parametrize("tool", TOOLS)
def test_tools_are_dependencies(tool: str) -> None:
    assert f'"{tool}>=' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_names_are_there(name: str) -> None:
    assert name == "pymq.filters" or resolved(name) is not None


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_commands_are_there(command: list[str]) -> None:
    assert cli.run([*command[1:], "--help"]) == EXIT_OK


def test_the_test_that_is_run_alone_is_there() -> None:
    chosen = re.findall(r"(tests/\S+\.py) -k (\w+)", SHELL)
    assert chosen
    assert all(name in (ROOT / path).read_text(encoding="utf-8") for path, name in chosen)


def test_every_script_of_the_gate_is_named() -> None:
    steps = re.findall(r"^step \w+ (scripts/\w+)", (ROOT / ".ci" / "run").read_text(encoding="utf-8"), re.MULTILINE)
    assert steps
    assert not [step for step in steps if step not in TEXT]


def test_every_recipe_says_what_holds_it() -> None:
    assert len(RECIPES) >= 6
    body = TEXT.partition("## Recipes")[2].partition("\n## ")[0]
    assert [
        recipe for recipe in re.split(r"^### ", body, flags=re.MULTILINE)[1:] if "\nHeld by `tests/" not in recipe
    ] == []
    assert [recipe for recipe in re.split(r"^### ", body, flags=re.MULTILINE)[1:] if "\nExample: " not in recipe] == []


def test_every_folder_of_tests_is_on_the_map() -> None:
    table = TEXT.partition("## Where a behavior is tested")[2]
    folders = [path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and any(path.rglob("test_*.py"))]
    assert len(folders) > 10
    # bench and demo are programs: scripts/bench and scripts/demo say what they do.
    assert not [name for name in folders if name not in {"bench", "demo"} and f"`tests/{name}" not in table]
