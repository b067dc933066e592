"""The pages that tests here render are compared with those in ``golden/``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.console.golden import compared

DIRECTORY: Final = Path(__file__).parent / "golden"


@pytest.fixture(autouse=True)
def golden(request: pytest.FixtureRequest) -> Iterator[None]:
    yield from compared(request, DIRECTORY)
