"""Runs the tests of installed plugins (scripts/test installs all)."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from tests.machine import (  # noqa: F401 - pytest finds fixtures and hooks by name
    machine_environment,
    pytest_runtest_call,
    pytest_runtest_setup,
    pytest_runtest_teardown,
)

HERE = Path(__file__).parent
PACKAGES = (path.parent.name for path in HERE.glob("*/pyproject.toml"))
MISSING = sorted(name for name in PACKAGES if find_spec(name.replace("-", "_")) is None)
collect_ignore = MISSING


def pytest_report_header() -> str:
    return f"plugins not installed, not tested: {', '.join(MISSING)}" if MISSING else "plugins: all installed"
