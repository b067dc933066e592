"""What the versions of Spark lack that PyMQ runs on, and the sentences that say so."""

from __future__ import annotations

import re
import sys
from importlib import metadata

from pymq.errors import UsageError

_STREAMS = (4, 2)
_STREAM_SINK = (4, 1)
_NEWEST_JAVA = (4, 2)
# Hadoop's libraries of the Sparks before call what Java 24 has no more.
_OLDER_JAVA_MAJOR_MAX = 23


def spark_version() -> str:
    """Return the version of pyspark, as text; empty when it is not installed. Does not import it."""
    loaded = sys.modules.get("pyspark")
    if loaded is not None:
        return str(loaded.__version__)
    try:
        return metadata.version("pyspark")
    except metadata.PackageNotFoundError:
        return ""


def check_streams(version: str = "") -> None:
    """Raise UsageError where Spark does not say to a source in Python where a batch of a stream begins."""
    _check(
        version,
        _STREAMS,
        "reading a topic as a stream",
        "follow it with pymq spark-export --follow, or read batches from the offsets that the last one ended at",
    )


def check_stream_sink(version: str = "") -> None:
    """Raise UsageError where Spark gives no Arrow to a sink of streams in Python."""
    _check(
        version,
        _STREAM_SINK,
        'writeStream.format("pymq")',
        "write each batch by foreachBatch(pyspark_pymq.batch_writer(topic=NAME))",
    )


def java_major_max(version: str = "") -> int | None:
    """Return the newest Java that the Spark runs on; None stands for any."""
    return _OLDER_JAVA_MAJOR_MAX if _is_before(version or spark_version(), _NEWEST_JAVA) else None


def _check(version: str, since: tuple[int, int], what: str, instead: str) -> None:
    version = version or spark_version()
    if _is_before(version, since):
        wanted = ".".join(map(str, since))
        raise UsageError(f"{what} needs Spark {wanted}, and this is {version}: {instead}")


def _is_before(version: str, since: tuple[int, int]) -> bool:
    numbers = re.match(r"(\d+)\.(\d+)", version)
    return numbers is not None and (int(numbers[1]), int(numbers[2])) < since
