"""The watchdog ends a JVM that outlives its program, and nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from pymq.spark.session.watchdog import Watchdog

ROOT = Path(__file__).parents[3]
DEADLINE_S = 30.0
# A program with a child that ignores the end of its standard input, as a JVM that hangs does.
PROGRAM = """
import subprocess, sys, time
from pymq.spark.session.watchdog import Watchdog
command = [sys.executable, "-c", "import time; time.sleep(600)"]
jvm = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
Watchdog(jvm.pid, grace_s=1)
print(jvm.pid, flush=True)
time.sleep(600)
"""


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    """Return False also for a process that has ended and that nobody has waited for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as process:
        yield process
        process.kill()


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="reads the states of processes in /proc")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGHUP, signal.SIGTERM])
def test_a_jvm_that_hangs_ends_with_its_program(how: signal.Signals) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    program = subprocess.Popen([sys.executable, "-c", PROGRAM], env=environment, stdout=subprocess.PIPE, text=True)
    assert program.stdout is not None
    jvm = int(program.stdout.readline())
    try:
        assert is_alive(jvm)
        program.send_signal(how)
        program.wait(DEADLINE_S)
        until(lambda: not is_alive(jvm))
    finally:
        program.kill()
        program.wait()
        program.stdout.close()
        with suppress(ProcessLookupError):
            os.kill(jvm, signal.SIGKILL)


def test_a_watchdog_that_is_closed_kills_nothing(sleeper: subprocess.Popen[bytes]) -> None:
    watchdog = Watchdog(sleeper.pid, grace_s=0)
    watchdog.close()
    assert sleeper.poll() is None
    assert watchdog._process.poll() is not None, "its shell has ended"


def test_a_watchdog_ends_by_itself_when_the_jvm_has(sleeper: subprocess.Popen[bytes]) -> None:
    watchdog = Watchdog(sleeper.pid)
    sleeper.kill()
    sleeper.wait()
    assert watchdog._process.stdin is not None
    watchdog._process.stdin.close()
    assert watchdog._process.wait(DEADLINE_S) == 0
