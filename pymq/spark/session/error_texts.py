"""Reads the texts of Spark's errors, which are pages of Java and Python."""

from __future__ import annotations

import re

# The last line of a Python traceback in Spark's text.
LAST_LINE = re.compile(r"^(?:[\w.]+\.)?(\w+(?:Error|Violation|Refusal|Exception)): (.*)$", re.MULTILINE)
# Java names the cause of a failed task in the middle of a line.
_ANYWHERE = re.compile(r"(\w+(?:Error|Exception)): ((?:(?!\w+(?:Error|Exception): ).)*)")


def text_of(error: Exception) -> str:
    """Return an error's text; empty when it must be asked from a JVM that has ended."""
    try:
        return str(error)
    except Exception:  # Py4J's error, or the operating system's
        return ""


def causes_of(error: Exception) -> str:
    """Return the stacks of Java's errors behind an error of PySpark; empty when there are none."""
    stacks: list[str] = []
    cause = getattr(error, "_cause", None)
    while cause is not None:
        stacks.append(str(getattr(cause, "_stackTrace", "")))
        cause = getattr(cause, "_cause", None)
    return "\n".join(stacks)


def essence(text: str) -> str:
    """Return the most useful line of a long text: Python's last line, else Java's first exception with its cause."""
    if found := LAST_LINE.findall(text):
        return ": ".join(found[-1])
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for line in lines:
        if inner := _ANYWHERE.findall(line):
            return ": ".join(inner[-1])
    return lines[0] if lines else "no text"
