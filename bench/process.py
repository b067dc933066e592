"""Reads the CPU time and memory of a server and all its children from /proc."""

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
START_DEADLINE_S = 30.0
STOP_DEADLINE_S = 20.0


def family(pid: int) -> list[int]:
    """Returns ``pid`` and its running descendants."""
    members = [pid]
    for member in members:
        for task in Path(f"/proc/{member}/task").glob("*/children"):
            try:
                members += [int(child) for child in task.read_text().split()]
            except OSError:  # the thread ended between listing and reading
                continue
    return members


def cpu_seconds(pid: int) -> float:
    """Returns the user and system time of the process, its threads and its descendants so far, in seconds."""
    return sum(map(own_cpu_seconds, family(pid)))


def own_cpu_seconds(pid: int) -> float:
    """Returns the user and system time of the process and its threads without descendants; 0 when it has ended."""
    fields = _stat_fields(pid)
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND if fields else 0.0


def scheduled_ns(pid: int) -> int:
    """Returns the time that the threads of the process were on a CPU so far, in ns; its descendants don't count."""
    return sum(int(task.read_text().split()[0]) for task in Path(f"/proc/{pid}/task").glob("*/schedstat"))


def resident_bytes(pid: int) -> int:
    """Returns the resident memory of the process and its descendants; shared pages count for each of them."""
    pages = 0
    for member in family(pid):
        try:
            pages += int(Path(f"/proc/{member}/statm").read_text().split()[1])
        except OSError:
            continue
    return pages * PAGE_BYTES


def is_running(pid: int) -> bool:
    """Returns False when the process has ended, even if its parent has not read the exit code."""
    fields = _stat_fields(pid)
    return bool(fields) and fields[0] != "Z"


def peak_resident_bytes(pid: int) -> int:
    """Returns the peak resident memory of the process without descendants."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status[status.index("VmHWM:") :].split()[1]) * 1024


def _stat_fields(pid: int) -> list[str]:
    """Returns the fields of /proc/PID/stat from the state on; empty when the process has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return []
    return text[text.rindex(")") + 2 :].split()


@contextlib.contextmanager
def pinned() -> Iterator[None]:
    """Keeps this process on one CPU during the block, so that a load generator spares the server's caches."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


class Paused:
    """Pauses server processes while another one is measured."""

    def __init__(self, pids: list[int]) -> None:
        self._pids = pids

    def __enter__(self) -> None:
        for pid in self._pids:
            os.kill(pid, signal.SIGSTOP)

    def __exit__(self, *_: object) -> None:
        for pid in self._pids:
            os.kill(pid, signal.SIGCONT)


def first_line(process: "subprocess.Popen[str]", within_s: float = START_DEADLINE_S) -> str:
    """Reads the line that a server writes once it is ready; empty when it ends without one.

    Kills a server that has not written it after ``within_s``, which ends the read.
    """
    watchdog = threading.Timer(within_s, process.kill)
    watchdog.start()
    assert process.stdout is not None
    line = process.stdout.readline()
    watchdog.cancel()
    return line


def stop(process: "subprocess.Popen[bytes] | subprocess.Popen[str]", within_s: float = STOP_DEADLINE_S) -> None:
    """Ends a process with SIGTERM, and with SIGKILL if it still runs after ``within_s``."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(within_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def settle_cpu(seconds: float = 0.3) -> None:
    """Waits for background work (index building), so that its CPU time counts for the messages that caused it."""
    time.sleep(seconds)
