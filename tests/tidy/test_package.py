"""The package's own figures agree: version, entry point, scripts."""

import os
import tomllib

import pytest

import pymq
from tests.tidy.sources import ROOT

SCRIPTS = ("install", "demo", "test", "lint", "check", "build", "bench")


def project() -> dict[str, object]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        return tomllib.load(file)["project"]


def test_version_is_one() -> None:
    assert project()["version"] == pymq.__version__


def test_changelog_names_the_version() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert "## Unreleased" in changelog or f"## {pymq.__version__}" in changelog


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_can_be_run(name: str) -> None:
    path = ROOT / "scripts" / name
    assert os.access(path, os.X_OK)
    assert path.read_text(encoding="utf-8").startswith("#!")


def test_documents_are_there() -> None:
    wanted = ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "LICENSE", "docs/performance.md", "plugins/README.md"]
    assert not [name for name in wanted if not (ROOT / name).is_file()]
