"""Limits of replication: each stands in docs/replication-protocol.md with its value, and in a test."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.tidy.sources import ROOT

UNITS = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "PiB": 1 << 50, "s": 1000, "h": 3_600_000}
PACKAGES = {
    "rate_limited_log.py": "pymq/rate_limited_log.py",
    "model/epochs.py": "pymq/model/epochs.py",
    "wire/ha.py": "pymq/wire/ha.py",
    "wire/bodies_replication.py": "pymq/wire/bodies_replication.py",
    "handlers/log_copy.py": "pymq/broker/handlers/log_copy.py",
}
REPLICATION = ROOT / "pymq" / "broker" / "replication"
NAME = re.compile(r"^([A-Z][A-Z0-9_]*(?:_MAX|_KEPT))\b.*=", re.MULTILINE)


def path_of(module: str) -> Path:
    return ROOT / PACKAGES[module] if module in PACKAGES else REPLICATION / module


def in_code() -> dict[tuple[str, str], int]:
    """Return (module as the page names it, constant) -> value."""
    modules = [*PACKAGES, *(str(path.relative_to(REPLICATION)) for path in REPLICATION.rglob("*.py"))]
    found: dict[Any, Any] = {}
    for module in modules:
        path = path_of(module)
        names = NAME.findall(path.read_text(encoding="utf-8"))
        if names:
            loaded = import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
            found |= {(module, name): getattr(loaded, name) for name in names}
    return found


def in_docs() -> dict[tuple[str, str], int]:
    text = (ROOT / "docs" / "replication-protocol.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\S+\.py)` `(\w+)` \| (\S+?) ?([A-Za-z]*) \|", text, re.MULTILINE)
    return {(module, name): number(value) * UNITS[unit] for module, name, value, unit in rows}


def number(text: str) -> int:
    base, _, power = text.replace(",", "").partition("^")
    return int(base) ** int(power or 1)


def test_each_limit_is_documented_with_its_value() -> None:
    assert len(in_code()) > 20
    assert in_docs() == in_code()


def test_each_limit_is_in_a_test() -> None:
    tests = "".join(
        path.read_text(encoding="utf-8")
        for path in (ROOT / "tests").rglob("test_*.py")
        if path.name != Path(__file__).name
    )
    assert not [name for _, name in in_code() if not re.search(rf"\b{name}\b", tests)]
