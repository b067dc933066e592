"""The sentences about older versions of Spark."""

from __future__ import annotations

import pytest

from pymq.errors import UsageError
from pymq.spark.spark_versions import check_stream_sink, check_streams, java_major_max, spark_version


@pytest.mark.parametrize("version", ["4.0.0", "4.0.4", "4.1.4", "3.5.9"])
def test_streams_need_a_newer_spark(version: str) -> None:
    text = rf"a topic as a stream needs Spark 4\.2, and this is {version}: follow it with pymq spark-export --follow"
    with pytest.raises(UsageError, match=text):
        check_streams(version)
    assert java_major_max(version) == 23


@pytest.mark.parametrize("version", ["4.2.0", "4.3.0", "5.0.0", "4.10.1", "unknown"])
def test_newer_ones_have_all(version: str) -> None:
    check_streams(version)
    check_stream_sink(version)
    assert java_major_max(version) is None


def test_sinks_of_streams_need_arrow() -> None:
    check_stream_sink("4.1.0")
    with pytest.raises(UsageError, match=r"needs Spark 4\.1, and this is 4\.0\.4: .*pyspark_pymq\.batch_writer"):
        check_stream_sink("4.0.4")


def test_the_installed_version_is_known() -> None:
    assert spark_version().split(".")[0] == "4"
