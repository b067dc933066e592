"""Limits of replication and Raft groups: each stands in its protocol page with its value, and in a test."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.tidy.sources import ROOT

UNITS = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "PiB": 1 << 50, "s": 1000, "h": 3_600_000}
PACKAGES = {
    "rate_limited_log.py": "pymq/rate_limited_log.py",
    "model/epochs.py": "pymq/model/epochs.py",
    "wire/ha.py": "pymq/wire/ha.py",
    "wire/bodies_replication.py": "pymq/wire/bodies_replication.py",
    "metadata/pending_offsets.py": "pymq/broker/metadata/pending_offsets.py",
    "handlers/log_copy.py": "pymq/broker/handlers/log_copy.py",
}
REPLICATION = ROOT / "pymq" / "broker" / "replication"
RAFT = ROOT / "pymq" / "broker" / "raft"
NAME = re.compile(r"^([A-Z][A-Z0-9_]*(?:_MAX|_KEPT))\b.*=", re.MULTILINE)


def modules_of(page: str) -> dict[str, Path]:
    """Return module, as the page names it -> its path."""
    if page == "raft-protocol.md":
        return {str(path.relative_to(RAFT)): path for path in RAFT.rglob("*.py")}
    own = {str(path.relative_to(REPLICATION)): path for path in REPLICATION.rglob("*.py")}
    return own | {module: ROOT / path for module, path in PACKAGES.items()}


def in_code(page: str) -> dict[tuple[str, str], int]:
    """Return (module as the page names it, constant) -> value."""
    found: dict[Any, Any] = {}
    for module, path in modules_of(page).items():
        names = NAME.findall(path.read_text(encoding="utf-8"))
        if names:
            loaded = import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
            found |= {(module, name): getattr(loaded, name) for name in names}
    return found


def in_docs(page: str) -> dict[tuple[str, str], int]:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\S+\.py)` `(\w+)` \| (\S+?) ?([A-Za-z]*) \|", text, re.MULTILINE)
    return {(module, name): number(value) * UNITS[unit] for module, name, value, unit in rows}


def number(text: str) -> int:
    base, _, power = text.replace(",", "").partition("^")
    return int(base) ** int(power or 1)


@pytest.mark.parametrize(("page", "count"), [("replication-protocol.md", 20), ("raft-protocol.md", 9)])
def test_each_limit_is_documented_with_its_value(page: str, count: int) -> None:
    assert len(in_code(page)) > count
    assert in_docs(page) == in_code(page)


@pytest.mark.slow
@pytest.mark.parametrize("page", ["replication-protocol.md", "raft-protocol.md"])
def test_each_limit_is_in_a_test(page: str) -> None:
    tests = "".join(
        path.read_text(encoding="utf-8")
        for path in (ROOT / "tests").rglob("test_*.py")
        if path.name != Path(__file__).name
    )
    assert not [name for _, name in in_code(page) if not re.search(rf"\b{name}\b", tests)]
