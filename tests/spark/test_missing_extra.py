"""Commands that need the spark extra say so in one line when a package of it is missing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pymq.packages import pip_install

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "conf" / "pipelines" / "sessions.toml"
CODE = """
import sys
sys.modules[sys.argv[1]] = None
from pymq.cli.main import run
for line in sys.argv[2:]:
    print(run(line.split()), flush=True)
"""
LINES = ("spark-export --output x", "spark-import x", "spark-sql select", f"pipeline plan {EXAMPLE}")


def run_without(module: str, cwd: Path, *lines: str) -> tuple[list[str], list[str]]:
    """Run commands in a process that lacks a module; return the exit codes and what it says, without hints."""
    command = [sys.executable, "-c", CODE, module, *lines]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    return done.stdout.split(), done.stderr.splitlines()


def test_without_pyarrow(tmp_path: Path) -> None:
    codes, said = run_without("pyarrow", tmp_path, *LINES)
    assert codes == ["2"] * len(LINES), said
    assert len(said) == len(LINES)
    assert all(pip_install("spark") in line and "pyarrow" in line for line in said), said


@pytest.mark.parametrize("line", ["spark-sql select", f"pipeline plan {EXAMPLE}"])
def test_without_pyspark(tmp_path: Path, line: str) -> None:
    codes, said = run_without("pyspark", tmp_path, line)
    assert codes == ["2"] and len(said) == 1, said
    assert pip_install("spark") in said[0]
