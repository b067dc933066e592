"""CPU and memory are those of the whole family of processes."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from bench import process

# The parent starts a child that burns CPU until it has used 0.2 s, then both wait for the end of stdin.
_CHILD = "import time,sys\nwhile time.process_time() < 0.2: pass\nprint('burnt', flush=True)\nsys.stdin.read()"
_PARENT = "import subprocess,sys\nsubprocess.run([sys.executable, '-c', sys.argv[1]])"


def test_children_are_counted() -> None:
    running = subprocess.Popen(
        [sys.executable, "-c", _PARENT, _CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert running.stdout is not None and running.stdout.readline() == "burnt\n"
        assert len(process.family(running.pid)) == 2
        assert process.cpu_seconds(running.pid) >= 0.15
        alone = os.sysconf("SC_PAGE_SIZE") * int(Path(f"/proc/{running.pid}/statm").read_text().split()[1])
        assert process.resident_bytes(running.pid) > alone
    finally:
        running.communicate()


def test_an_ended_process_has_used_nothing() -> None:
    done = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    assert process.is_running(done.pid)
    assert process.peak_resident_bytes(done.pid) > 0
    assert done.stdin is not None
    done.stdin.close()
    os.waitid(os.P_PID, done.pid, os.WEXITED | os.WNOWAIT)
    assert not process.is_running(done.pid)  # nobody has asked for its exit code
    done.wait()
    assert not process.is_running(done.pid)
    assert process.cpu_seconds(done.pid) == 0
    assert process.resident_bytes(done.pid) == 0


def test_pinning_is_undone() -> None:
    before = os.sched_getaffinity(0)
    with process.pinned():
        assert len(os.sched_getaffinity(0)) == 1
    assert os.sched_getaffinity(0) == before


def server(program: str) -> "subprocess.Popen[str]":
    return subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)


def test_the_first_line_of_a_server() -> None:
    with server("print('ready'); print('more')") as running:
        assert process.first_line(running) == "ready\n"
    with server("") as running:
        assert process.first_line(running) == ""


def test_a_server_that_hangs_before_its_line_is_killed() -> None:
    with server("import threading; threading.Event().wait()") as running:
        assert process.first_line(running, 0.1) == ""
    assert running.returncode == -signal.SIGKILL
