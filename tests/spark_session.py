"""One Spark session for all tests of a process, on the wheel's JVM, which no other suite tests."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
JARS = "PYMQ_SPARK_JARS"
"""Paths of spark-avro and spark-protobuf, separated by commas, for the tests of their functions."""

_FOLDERS = ("tests/spark/", "tests/pipeline/", "tests/filterserver/")
_ASKS = re.compile(r"^(?:def test.*\b|    )spark: Any\b", re.MULTILINE)


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    from pymq.spark.session import gateway
    from pymq.spark.session.java import JavaNotFoundError, find_java

    try:
        java = find_java({})
    except JavaNotFoundError:
        java = find_java()
    conf = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2"}
    if jars := os.environ.get(JARS):
        conf["spark.jars"] = jars
    with gateway.running("local[2]", conf, java=java) as session:
        yield session


@cache
def asks_for_session(file: str) -> bool:
    """Return True when a test of this file, named from the root of the checkout, takes the fixture ``spark``."""
    return file.startswith(_FOLDERS) and bool(_ASKS.search((ROOT / file).read_text("utf-8")))
