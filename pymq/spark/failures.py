"""Converts the error that Spark raises for a failed task into the error that the task itself raised."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from pymq import errors
from pymq.errors import PymqError
from pymq.model.record import MalformedRecordError
from pymq.spark import gateway
from pymq.spark.ranges import DataLossError

_KNOWN: dict[str, type[PymqError]] = {
    kind.__name__: kind
    for kind in (
        DataLossError,
        MalformedRecordError,
        errors.UnreachableError,
        errors.RequestTimeoutError,
        errors.NotFoundError,
        errors.UsageError,
        errors.FilterStopError,
        errors.PymqError,
    )
}
# The last line of a Python traceback in Spark's text.
_LAST_LINE = re.compile(r"^(?:[\w.]+\.)?(\w+(?:Error|Violation|Refusal|Exception)): (.*)$", re.MULTILINE)
# Java names the cause of a failed task in the middle of a line.
_ANYWHERE = re.compile(r"(\w+(?:Error|Exception)): ((?:(?!\w+(?:Error|Exception): ).)*)")
_REFUSED = re.compile(r"^(?:(\S+): )?refused with code (-?\d+): (.*)$")


class TaskFailedError(PymqError):
    """A Spark task failed with an error that is not a PymqError."""


@contextmanager
def translated() -> Iterator[None]:
    """Wraps a Spark action: raises a task's PymqError itself, else TaskFailedError with one line.

    SparkStartError: the JVM has ended.
    """
    from py4j.protocol import Py4JError, Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        raise translate(str(error)) from error
    except (Py4JError, ConnectionError) as error:
        raise (gateway.death() or translate(str(error))) from error


def translate(text: str) -> PymqError:
    """Returns the error that a message of Spark describes."""
    found = _LAST_LINE.findall(text)
    for name, message in reversed(found):
        if name == "RefusedError" and (match := _REFUSED.match(message)):
            return errors.RefusedError(int(match.group(2)), match.group(3), match.group(1) or "")
        if name in _KNOWN:
            return _KNOWN[name](message)
    return TaskFailedError(f"a Spark task failed: {_essence(text, found)[:500]}")


def _essence(text: str, found: list[tuple[str, str]]) -> str:
    """Returns the most useful line of a long text: Python's last line, else Java's first exception with its cause."""
    if found:
        return ": ".join(found[-1])
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for line in lines:
        if inner := _ANYWHERE.findall(line):
            return ": ".join(inner[-1])
    return lines[0] if lines else "no text"
