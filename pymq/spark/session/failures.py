"""Converts the error that Spark raises for a failed task into the error that the task itself raised."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from pymq import errors
from pymq.errors import PymqError
from pymq.model.record import MalformedRecordError
from pymq.spark.lake.parquet_parts import OutputFullError
from pymq.spark.places.object_paths import ObjectStoreError
from pymq.spark.planning.ranges import DataLossError
from pymq.spark.session import gateway
from pymq.spark.session.error_texts import LAST_LINE, causes_of, essence, text_of

_KNOWN: dict[str, type[PymqError]] = {
    kind.__name__: kind
    for kind in (
        DataLossError,
        MalformedRecordError,
        ObjectStoreError,
        OutputFullError,
        errors.UnreachableError,
        errors.RequestTimeoutError,
        errors.NotFoundError,
        errors.UsageError,
        errors.FilterStopError,
        errors.StoreError,
        errors.PymqError,
    )
}
# PythonWorkerFactory, BasePythonRunner and TaskSetManager say so.
_LOST = re.compile(r"Python worker (exited unexpectedly|failed to connect back)|ExecutorLostFailure")
# A connection that ended, in Spark's code for Python: a process that plans was lost, which Java says with no text.
_LOST_AT = re.compile(
    r"^java\.[\w.]*(?:EOF|Socket|ClosedChannel)Exception.*\n(?:\s*at java\..*\n)*"
    r"\s*at org\.apache\.spark\.[\w.]*python\.",
    re.MULTILINE,
)
_HAS_NO_PYMQ = re.compile(r"Failed to find the data source: pymq\b|No module named 'py(mq|spark_pymq)\b")
_REFUSED = re.compile(r"^(?:(\S+): )?refused with code (-?\d+): (.*)$")


class TaskFailedError(PymqError):
    """A Spark task failed with an error that is not a PymqError."""


class WorkerLostError(TaskFailedError):
    """A Python process of Spark was killed, or did not start in Spark's time: the same work may succeed again."""


@contextmanager
def translated() -> Iterator[None]:
    """Wrap a Spark action: raises a task's PymqError itself, else TaskFailedError with one line.

    SparkStartError: the JVM has ended.
    """
    from py4j.protocol import Py4JError, Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        text = text_of(error)
        if text and _LOST_AT.search(causes_of(error)):
            raise WorkerLostError("a Python worker of Spark ended") from error
        raise (
            translate(text) if text else gateway.death() or translate("Spark's JVM ended before it said why")
        ) from error
    except (Py4JError, ConnectionError) as error:
        raise (gateway.death() or translate(text_of(error))) from error


def translate(text: str) -> PymqError:
    """Return the error that a message of Spark describes."""
    for name, message in reversed(LAST_LINE.findall(text)):
        if name == "RefusedError" and (match := _REFUSED.match(message)):
            return errors.RefusedError(int(match.group(2)), match.group(3), match.group(1) or "")
        if name in _KNOWN:
            return _KNOWN[name](message)
    if _HAS_NO_PYMQ.search(text):
        return TaskFailedError(
            "Spark started a Python without PyMQ: call pyspark_pymq.register(spark) before, or set PYSPARK_PYTHON to a "
            "Python that has PyMQ, on executors too"
        )
    kind = WorkerLostError if _LOST.search(text) else TaskFailedError
    return kind(f"a Spark task failed: {essence(text)[:500]}")
