"""What all tests of simulated clusters share."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Silence asyncio: the product itself logs what goes wrong here."""
    before = logging.getLogger("asyncio").level
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    yield
    logging.getLogger("asyncio").setLevel(before)
