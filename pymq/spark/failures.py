"""Turns what Spark raises for a failed task into the error that the task itself raised."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from pymq import errors
from pymq.errors import PymqError
from pymq.model.record import MalformedRecordError
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
# The last line of a Python traceback inside Spark's text.
_LAST_LINE = re.compile(r"^(?:[\w.]+\.)?(\w+(?:Error|Violation|Refusal|Exception)): (.*)$", re.MULTILINE)
# Java names the cause of a failed task in the middle of a line.
_ANYWHERE = re.compile(r"(\w+(?:Error|Exception)): ((?:(?!\w+(?:Error|Exception): ).)*)")
_REFUSED = re.compile(r"^(?:(\S+): )?refused with code (-?\d+): (.*)$")


class TaskFailedError(PymqError):
    """A Spark task failed for a reason that is none of ours."""


@contextmanager
def translated() -> Iterator[None]:
    """Around a Spark action: raises our own error class when a task raised one, else TaskFailedError in one line."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise translate(str(error)) from error


def translate(text: str) -> PymqError:
    """The error that a Spark message is about."""
    found = _LAST_LINE.findall(text)
    for name, message in reversed(found):
        if name == "RefusedError" and (match := _REFUSED.match(message)):
            return errors.RefusedError(int(match.group(2)), match.group(3), match.group(1) or "")
        if name in _KNOWN:
            return _KNOWN[name](message)
    return TaskFailedError(f"Spark could not do it: {_essence(text, found)[:500]}")


def _essence(text: str, found: list[tuple[str, str]]) -> str:
    """The one line of a long text that says most: Python's last word, else Java's first exception and its cause."""
    if found:
        return ": ".join(found[-1])
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for line in lines:
        if inner := _ANYWHERE.findall(line):
            return ": ".join(inner[-1])
    return lines[0] if lines else "no text"
