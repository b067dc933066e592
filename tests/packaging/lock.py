"""The lock file: exact versions and hashes of what ``scripts/install`` may install, and for which extras.

``python -m tests.packaging.lock`` writes it again from the ranges in pyproject.toml; ``scripts/lock`` calls it.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "requirements" / "lock.txt"
PROJECT = "pymq-toolkit"
PYTHON_MIN = "3.11"
TOOLS, BASE, PLUGINS = "tools", "base", "plugins"
# What packages without a wheel are built with (pyspark is one), and what hatchling asks for while it builds.
# pip would fetch them without a hash: scripts/install has them installed before it builds.
BUILD_TOOLS = ["setuptools>=70.1", "editables>=0.5"]
HEAD = """\
# Made by scripts/lock from pyproject.toml and plugins/*/pyproject.toml: exact versions, hashes of all their files, for
# Python 3.11 and newer on every architecture. scripts/install takes the entries of the extras that it is given.
"""
FOR = "# for: "


@dataclass(frozen=True)
class Entry:
    """A version of the lock."""

    requirement: Requirement  # name, one version, marker
    extras: frozenset[str]
    hashes: tuple[str, ...]
    text: str  # as it stands in the file

    @property
    def name(self) -> str:
        """Return the package's canonical name."""
        return canonicalize_name(self.requirement.name)

    @property
    def version(self) -> str:
        """Return the exact version."""
        return next(iter(self.requirement.specifier)).version


def wanted() -> dict[str, list[str]]:
    """Return extra -> requirements in pyproject.toml, with those of the extras that it names.

    ``tools``: what packages are built and installed with; ``base``: without an extra; ``plugins``: of all plugins.
    """
    said = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    project = said["project"]
    extras: dict[str, list[str]] = project["optional-dependencies"]
    tools = [*said["build-system"]["requires"], *BUILD_TOOLS, *extras["lock"]]  # uv, which installs, too

    def of(extra: str) -> list[str]:
        found = []
        for text in extras[extra]:
            requirement = Requirement(text)
            own = requirement.name == PROJECT
            found += [each for name in sorted(requirement.extras) for each in of(name)] if own else [text]
        return found

    plugins = []
    for path in sorted((ROOT / "plugins").glob("*/pyproject.toml")):
        plugin = tomllib.loads(path.read_text(encoding="utf-8"))
        texts = [*plugin["build-system"]["requires"], *plugin["project"]["dependencies"]]
        plugins += [text for text in texts if Requirement(text).name != PROJECT]
    return {TOOLS: tools, BASE: project["dependencies"], **{extra: of(extra) for extra in extras}, PLUGINS: plugins}


def entries(text: str) -> list[Entry]:
    """Return the entries of a lock file's text. Raises ValueError for a line that is no part of one."""
    found = []
    for block in text.removeprefix(HEAD).split(FOR)[1:]:
        extras, _, pinned = block.partition("\n")
        words = [line.strip() for line in pinned.replace("\\\n", "\n").splitlines() if line.strip()]
        hashes = tuple(word.removeprefix("--hash=") for word in words[1:])
        if not all(re.fullmatch(r"sha256:[0-9a-f]{64}", value) for value in hashes):
            raise ValueError(f"not a requirement and its SHA-256 hashes: {words}")
        found.append(Entry(Requirement(words[0]), frozenset(extras.split()), hashes, pinned))
    return found


def compiled(requirements: Iterable[str], *options: str) -> str:
    """Return the pinned requirements for every Python and platform, as uv finds them."""
    command = [sys.executable, "-m", "uv", "pip", "compile", "-", "--universal", "--python-version", PYTHON_MIN]
    command += ["--no-header", "--no-annotate", "--no-emit-index-url", "--no-emit-find-links", "--quiet", *options]
    done = subprocess.run(command, input="\n".join(requirements), text=True, stdout=subprocess.PIPE, check=True)
    return done.stdout


def made(upgrade: bool) -> str:
    """Return a new lock file's text. Without ``upgrade`` present versions stay that still fit."""
    extras = wanted()
    with TemporaryDirectory() as scratch:
        chosen = Path(scratch) / "chosen.txt"
        if LOCK.exists() and not upgrade:
            chosen.write_text(LOCK.read_text(encoding="utf-8"), encoding="utf-8")
        everything = sorted({text for texts in extras.values() for text in texts})
        pinned = compiled(everything, "--generate-hashes", "--output-file", str(chosen)) or chosen.read_text("utf-8")
        plain = Path(scratch) / "plain.txt"
        blocks = re.split(r"\n(?=\S)", pinned.strip())
        plain.write_text("\n".join(block.split(" \\\n")[0] for block in blocks), encoding="utf-8")
        names = {
            extra: {
                canonicalize_name(Requirement(line).name)
                for line in compiled(texts, "--constraint", str(plain)).splitlines()
                if line.strip()
            }
            for extra, texts in extras.items()
        }
    lines = []
    for block in blocks:
        name = canonicalize_name(Requirement(block.split(" \\\n")[0]).name)
        lines.append(f"{FOR}{' '.join(extra for extra in extras if name in names[extra])}\n{block}\n")
    return HEAD + "".join(lines)


def main() -> None:
    """Write the lock file. With ``--upgrade`` all versions are the newest that fit."""
    LOCK.parent.mkdir(exist_ok=True)
    LOCK.write_text(made("--upgrade" in sys.argv[1:]), encoding="utf-8")
    found = entries(LOCK.read_text(encoding="utf-8"))
    print(f"{LOCK.relative_to(ROOT)}: {len(found)} versions, {sum(len(entry.hashes) for entry in found)} hashes")


if __name__ == "__main__":
    main()
