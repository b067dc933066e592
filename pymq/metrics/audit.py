"""Figures of a server's audit log."""

from __future__ import annotations

from collections.abc import Iterator

from pymq.metrics.family import Family, Reading, counter
from pymq.security.audit import Audit

OUTCOMES = ("written", "omitted", "failed")
LINES = counter(
    "pymq_audit_lines_total",
    "Lines of the audit log: `written`, `omitted` beyond the limit of their kind, `failed` because of the disk.",
    "outcome",
)


class AuditMetrics:
    """The figures of one audit log; zeros for a server without one."""

    metrics = (LINES,)

    def __init__(self, audit: Audit | None) -> None:
        self._audit = audit

    def collect(self) -> Iterator[Family]:
        audit = self._audit
        counts = (audit.written_count, audit.omitted_count, audit.failed_count) if audit is not None else (0, 0, 0)
        yield Family(LINES, [Reading((name,), count) for name, count in zip(OUTCOMES, counts, strict=True)])
