"""Each attempt is a line; a file that can't be written is a problem that is said, and stops nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pymq.clock import ManualClock
from pymq.console.audit import FILE_COUNT_MAX, SHOWN_COUNT_MAX, SIZE_MAX_BYTES, Audit
from pymq.security.audit_file import AuditFile

ABOUT = {
    "person": "ann",
    "address": "10.0.0.9",
    "session": "abcd",
    "context": "prod",
    "action": "offset reset",
    "subject": "group billing\n\x1b[31m",
}


def test_an_attempt_is_a_line_that_hides_no_control_character(tmp_path: Path) -> None:
    audit = Audit(ManualClock(), AuditFile(str(tmp_path), SIZE_MAX_BYTES, FILE_COUNT_MAX))
    audit.note(result="done", before={"q0": 1}, after={"q0": 2}, **ABOUT)
    audit.note(result="refused: no permission", **ABOUT)
    audit.close()
    lines = (tmp_path / "audit.log").read_text().splitlines()
    first, second = map(json.loads, lines)
    assert (first["before"], first["after"], first["result"]) == ({"q0": 1}, {"q0": 2}, "done")
    assert first["subject"] == "group billing\\n\\x1b[31m" and second["result"] == "refused: no permission"
    assert first["time_ms"] == ManualClock().now_ms() and len(audit.newest) == 2


def test_a_file_that_can_not_be_written_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "audit.log").mkdir()
    audit = Audit(ManualClock(), AuditFile(str(tmp_path), SIZE_MAX_BYTES, FILE_COUNT_MAX))
    audit.note(result="done", **ABOUT)
    assert "can't be written" in audit.problem and audit.newest[0].result == "done"
    assert "can't be written" in caplog.text


def test_the_newest_are_kept_in_memory() -> None:
    audit = Audit(ManualClock())
    for at in range(SHOWN_COUNT_MAX + 1):
        audit.note(result=str(at), **ABOUT)
    assert len(audit.newest) == SHOWN_COUNT_MAX and audit.newest[0].result == "1"
