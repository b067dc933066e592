"""One Spark session for all tests here, on the wheel's JVM, which no other suite tests."""

from __future__ import annotations

import os
from typing import Any

import pytest

from pymq.spark.session import gateway
from pymq.spark.session.java import JavaNotFoundError, find_java
from tests.spark.fake_cluster import FakeCluster

JARS = "PYMQ_SPARK_JARS"
"""Paths of spark-avro and spark-protobuf, separated by commas, for the tests of their functions."""


@pytest.fixture(scope="session")
def spark() -> Any:
    try:
        java = find_java({})
    except JavaNotFoundError:
        java = find_java()
    conf = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2"}
    if jars := os.environ.get(JARS):
        conf["spark.jars"] = jars
    with gateway.running("local[2]", conf, java=java) as session:
        yield session


@pytest.fixture
def cluster() -> Any:
    with FakeCluster() as fake:
        yield fake
