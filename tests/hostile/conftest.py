"""One server for the attacks of a module, and their figures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.hostile.harness import FIGURES, SCALE, Victim

collect_ignore: list[str] = [] if Path("/proc/self/status").exists() else ["."]  # memory is read from /proc


@pytest.fixture(scope="module")
def victim() -> Iterator[Victim]:
    """A standalone server with the default configuration, shared by a module's tests."""
    with Victim() as server:
        yield server


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print what each attack cost, when they have a scale."""
    for test, figures in FIGURES.items() if SCALE else ():
        terminalreporter.write_line(f"{test}: {'; '.join(figures)}")
