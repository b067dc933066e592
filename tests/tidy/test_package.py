"""The package's own figures agree: version, entry point, scripts."""

import os
import re
import tomllib

import pytest

import pymq
from tests.tidy.sources import ROOT

SCRIPTS = sorted(path.name for path in (ROOT / "scripts").iterdir() if path.is_file())


def project() -> dict[str, object]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        return tomllib.load(file)["project"]


def test_version_is_one() -> None:
    assert project()["version"] == pymq.__version__


def test_changelog_begins_with_the_version() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (.*)$", changelog, re.MULTILINE)
    assert re.fullmatch(rf"{re.escape(pymq.__version__)}( - \d{{4}}-\d\d-\d\d)?", headings[0])
    assert all(re.fullmatch(r"\d+\.\d+\.\d+ - \d{4}-\d\d-\d\d", heading) for heading in headings[1:])


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_can_be_run(name: str) -> None:
    path = ROOT / "scripts" / name
    assert os.access(path, os.X_OK)
    assert path.read_text(encoding="utf-8").startswith("#!")


def test_documents_are_there() -> None:
    wanted = [
        "README.md",
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "LICENSE",
        "docs/performance.md",
        "plugins/README.md",
    ]
    assert not [name for name in wanted if not (ROOT / name).is_file()]
