"""``pymq pipeline check``, and what ``run`` shows. Queries on Spark: tests/pipeline/test_job.py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pymq.cli import main as cli
from pymq.cli.pipeline.view import lines
from pymq.errors import EXIT_NOT_FOUND, EXIT_OK, EXIT_USAGE
from pymq.pipeline.report import Batch, History

EXAMPLE = Path(__file__).resolve().parents[3] / "conf" / "pipelines" / "sessions.toml"


def test_check_says_that_a_file_is_right_or_what_is_wrong(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert cli.run(["pipeline", "check", str(EXAMPLE)]) == EXIT_OK
    assert "is right. sources: 1, steps: 1, sinks: 1." in capsys.readouterr().out
    assert cli.run(["pipeline", "check", str(EXAMPLE), "--json"]) == EXIT_OK
    assert json.loads(capsys.readouterr().out) == {"name": "sessions", "sources": 1, "steps": 1, "sinks": 1}
    wrong = tmp_path / "wrong.toml"
    wrong.write_text(EXAMPLE.read_text(encoding="utf-8").replace("[[sink]]", "[[sinks]]"), encoding="utf-8")
    for command in ("check", "plan", "run"):
        assert cli.run(["pipeline", command, str(wrong)]) == EXIT_USAGE
        (line,) = capsys.readouterr().err.splitlines()
        assert line.endswith("unknown key sinks: did you mean sink?") and f"{wrong}:" in line
        assert cli.run(["pipeline", command, str(tmp_path / "none.toml")]) == EXIT_NOT_FOUND
        assert "can't be read" in capsys.readouterr().err


def test_the_view_has_a_line_for_each_sink_in_80_columns() -> None:
    history = History()
    assert lines("p", history, 3.0) == ["pipeline p | 0:03", "waiting for the first batch"]
    history.add(Batch("short", 0, "", 1_234_567, 98_765.4, 10, None))
    history.add(Batch("x" * 60, 0, "", 5, 1.0, 10, 7))
    shown = lines("p", history, 65.0)
    assert shown[0] == "pipeline p | 1:05" and len(shown) == 4
    assert shown[2].split() == ["short", "1", "1,234,567", "98,765", "-"]
    assert shown[3].split()[-1] == "7"
    assert max(map(len, shown)) == 80
