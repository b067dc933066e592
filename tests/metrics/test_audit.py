"""The figures of an audit log are those that it has counted."""

from __future__ import annotations

from pathlib import Path

from pymq.clock import ManualClock
from pymq.metrics.audit import AuditMetrics
from pymq.security.audit import LINES_MAX, REFUSAL, Audit
from pymq.security.audit_file import AuditFile
from pymq.wire.codes import ResponseCode
from pymq.wire.command import Command
from pymq.wire.reply import Reply
from tests.broker.world import FakePeer


def counts(audit: Audit | None) -> dict[str, float]:
    (family,) = AuditMetrics(audit).collect()
    return {reading.labels[0]: reading.value for reading in family.readings}


def test_lines_that_were_written_left_out_and_lost(tmp_path: Path) -> None:
    audit = Audit(AuditFile(str(tmp_path / "audit"), 1 << 20, 3), ManualClock(), "broker-a-0", "C")
    for _ in range(LINES_MAX[REFUSAL] + 2):
        audit.note(Command(10), FakePeer(), None, None, Reply(ResponseCode.NO_PERMISSION))
    assert counts(audit) == {"written": LINES_MAX[REFUSAL], "omitted": 2, "failed": 0}
    lost = Audit(AuditFile(str(tmp_path / "audit" / "audit.log" / "x"), 1 << 20, 3), ManualClock(), "b", "C")
    lost.note(Command(10), FakePeer(), None, None, Reply(ResponseCode.NO_PERMISSION))
    assert counts(lost) == {"written": 0, "omitted": 0, "failed": 1}


def test_a_server_without_an_audit_log_has_zeros() -> None:
    assert counts(None) == {"written": 0, "omitted": 0, "failed": 0}
