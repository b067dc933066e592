"""The pytest plugin of the extra ``pytest``: a broker, a topic, a producer and a consumer as fixtures.

pytest loads this module in every run, so it imports nothing of PyMQ until a test asks for a fixture.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pymq.client.sync import Producer
    from pymq.testing.broker import TestBroker
    from pymq.testing.inbox import Inbox


@pytest.fixture
def pymq_settings() -> Mapping[str, str]:
    """Keys of broker.conf for ``pymq_broker``; override this fixture to set some."""
    return {}


@pytest.fixture
def pymq_broker(pymq_settings: Mapping[str, str]) -> Iterator[TestBroker]:
    """A name server and a broker in this process, for one test."""
    from pymq.testing.broker import TestBroker  # noqa: PLC0415 - only when a test asks for it

    with TestBroker(**pymq_settings) as broker:
        yield broker


@pytest.fixture
def pymq_topic(pymq_broker: TestBroker) -> str:
    """The name of a topic with one queue, so that its messages keep their order."""
    name = f"topic-{uuid.uuid4().hex[:12]}"
    pymq_broker.create_topic(name, queue_count=1)
    return name


@pytest.fixture
def pymq_producer(pymq_broker: TestBroker) -> Iterator[Producer]:
    """A started producer, which blocks until a message is stored."""
    from pymq.client.sync import Producer  # noqa: PLC0415

    with Producer("pymq-test-producer", namesrv=pymq_broker.namesrv, clock=pymq_broker.clock) as producer:
        yield producer


@pytest.fixture
def pymq_consumer(pymq_broker: TestBroker, pymq_topic: str) -> Iterator[Inbox]:
    """A started consumer of ``pymq_topic`` that keeps what it receives."""
    from pymq.testing.inbox import Inbox  # noqa: PLC0415

    with Inbox(pymq_broker, pymq_topic) as inbox:
        yield inbox
