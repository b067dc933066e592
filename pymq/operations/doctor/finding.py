"""What a check finds: a severity, the subject, the text with its values, and the next step."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pymq.operations.doctor.state import ClusterState


class Severity(StrEnum):
    """How bad a finding is, the worst first."""

    PROBLEM = "problem"  # messages can't be sent, read or kept as they should be: the command fails
    WARNING = "warning"  # it works, and will not for long, or not for everyone
    NOTE = "note"  # worth knowing
    UNKNOWN = "unknown"  # a server doesn't report it


ORDER = list(Severity)


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding. ``subject`` is a broker, name server, topic or group; ``values`` are the figures in ``text``."""

    severity: Severity
    subject: str
    text: str
    next_step: str = ""
    values: dict[str, Any] = field(default_factory=dict)

    def as_record(self, check: str) -> dict[str, Any]:
        """Return the record to print, with the name of the check that found it."""
        return {
            "check": check,
            "severity": self.severity.value,
            "subject": self.subject,
            "text": self.text,
            "next_step": self.next_step,
            "values": self.values,
        }


class Check(NamedTuple):
    """A check: its name, the question that it answers, and a function that yields findings; none if all is well."""

    name: str
    question: str
    run: Callable[[ClusterState], Iterable[Finding]]


def problem(subject: str, text: str, next_step: str, **values: Any) -> Finding:
    return Finding(Severity.PROBLEM, subject, text, next_step, values)


def warning(subject: str, text: str, next_step: str, **values: Any) -> Finding:
    return Finding(Severity.WARNING, subject, text, next_step, values)


def note(subject: str, text: str, next_step: str = "", **values: Any) -> Finding:
    return Finding(Severity.NOTE, subject, text, next_step, values)


def unknown(subject: str, text: str, next_step: str = "", **values: Any) -> Finding:
    return Finding(Severity.UNKNOWN, subject, text, next_step, values)
