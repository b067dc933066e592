"""A cluster in this process, for the tests of Spark's parts that need no server."""

from __future__ import annotations

from typing import Any

import pytest

from tests.spark.fake_cluster import FakeCluster


@pytest.fixture
def cluster() -> Any:
    with FakeCluster() as fake:
        yield fake
