"""Masters and memory that can't work are refused before a JVM starts."""

from __future__ import annotations

import socket

import pytest

from pymq.errors import UnreachableError, UsageError
from pymq.spark.session.masters import check_driver_memory, check_master


@pytest.mark.parametrize(
    "url", ["local", "local[*]", "local[2]", "local[2,3]", "local-cluster[1,1,512]", "yarn", "k8s://x"]
)
def test_urls_that_spark_knows(url: str) -> None:
    check_master(url)


@pytest.mark.parametrize("url", ["spork://h:1", "local[]", "local[0]", "", "spark://", "127.0.0.1:7077"])
def test_other_urls(url: str) -> None:
    with pytest.raises(UsageError, match="is unknown: write local"):
        check_master(url)


def test_a_standalone_master_must_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        check_master(f"spark://127.0.0.1:{port}")
        check_master(f"spark://127.0.0.1:1,127.0.0.1:{port}")
    for address in (f"127.0.0.1:{port}", "127.0.0.1:x"):
        with pytest.raises(UnreachableError, match="no Spark master answers at spark://127"):
            check_master(f"spark://{address}")


def test_driver_memory() -> None:
    for text in ("450m", "1g", "1GB", "471859200k", "2T", "450"):
        check_driver_memory(text)
    with pytest.raises(UsageError, match="449m is too little: Spark's driver needs at least 450m"):
        check_driver_memory("449m")
    for text in ("lots", "", "1.5g", "-1g"):
        with pytest.raises(UsageError, match="is no size"):
            check_driver_memory(text)
