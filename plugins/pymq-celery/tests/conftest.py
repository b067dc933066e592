"""A broker for the tests of a module, with files in memory, and connections of kombu to it."""

from __future__ import annotations

import importlib.util
import logging
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from kombu import Connection

from pymq.testing.broker import TestBroker

Connect = Callable[..., Connection]


@pytest.fixture(scope="module")
def broker() -> Iterator[TestBroker]:
    with TestBroker(autoCreateTopicEnable="false") as running:
        yield running


@pytest.fixture(scope="session")
def workers() -> ModuleType:
    """The module of this folder, which is no package."""
    spec = importlib.util.spec_from_file_location("pymq_celery_workers", Path(__file__).parent / "workers.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def info_logs(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "pymq_celery")


@pytest.fixture
def prefix() -> str:
    """What divides a test's queues from those of others on the same broker."""
    return f"t{uuid.uuid4().hex[:8]}"


@pytest.fixture
def connect(broker: TestBroker, prefix: str) -> Iterator[Connect]:
    """Return a function that makes connections; all are closed at the end."""
    made: list[Connection] = []

    def make(namesrv: str = "", **options: Any) -> Connection:
        connection = Connection(f"pymq://{namesrv or broker.namesrv}/{prefix}", transport_options=options)
        made.append(connection)
        return connection

    yield make
    for connection in made:
        connection.release()
