"""One server for the attacks of a module."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hostile.harness import Victim

collect_ignore: list[str] = [] if Path("/proc/self/status").exists() else ["."]  # memory is read from /proc


@pytest.fixture(scope="module")
def victim() -> Iterator[Victim]:
    """A standalone server with the default configuration, shared by a module's tests."""
    with Victim() as server:
        yield server
