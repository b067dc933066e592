"""Fixtures for tests of both sides of replication."""

from __future__ import annotations

import pytest

from pymq.clock import ManualClock
from tests.broker.replication.cable import Cable


@pytest.fixture
def cable() -> Cable:
    return Cable()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()
