"""A test that hangs or ends its process is one failed test of a run in several processes: those behind it run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

FILES = {
    "conftest.py": "from tests.conftest import pytest_xdist_make_scheduler",
    "test_ending.py": """
import os

def test_ends_its_process(): os._exit(1)
def test_after(): pass
""",
    "test_waiting.py": """
import asyncio, threading
import uvloop

def test_waits_for_a_thread(): threading.Event().wait()
def test_waits_in_a_loop(): uvloop.run(asyncio.Event().wait())
def test_after(): pass
""",
    "test_other.py": "def test_other(): pass",
}
FAILING = ("test_ends_its_process", "test_waits_for_a_thread", "test_waits_in_a_loop")


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
def test_the_tests_behind_one_that_hangs_or_ends_its_process_run(tmp_path: Path, processes: int) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    times = ["-o", "timeout=1", "-o", "faulthandler_timeout=0.5"]
    shared = ["-n", str(processes), "--dist", "loadfile", "--no-loadscope-reorder", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), *times, *shared, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, timeout=150)
    failed = [line for line in done.stdout.splitlines() if line.startswith("FAILED ")]
    assert sorted(line.partition("::")[2].partition(" ")[0] for line in failed) == sorted(FAILING), done.stdout
    assert "3 failed, 3 passed in " in done.stdout
    assert "in test_waits_for_a_thread\n" in done.stderr, "the log does not say where it hangs"
