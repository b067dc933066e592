"""A server for the tests of a module, with files in memory, and names that no other test uses."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from pymq_faststream import PymqBroker

from pymq.testing.broker import TestBroker


@pytest.fixture(scope="module")
def server() -> Iterator[TestBroker]:
    with TestBroker(autoCreateTopicEnable="false") as running:
        yield running


@pytest.fixture
def topic() -> str:
    return f"t{uuid.uuid4().hex[:8]}"


@pytest.fixture
def broker(server: TestBroker, topic: str) -> PymqBroker:
    """A broker that is not connected, with groups of its own."""
    return PymqBroker(server.namesrv, group=f"g{topic}", logger=None)


@pytest.fixture
def anyio_backend() -> str:
    """What runs the coroutines of tests: PyMQ's client is asyncio's."""
    return "asyncio"
