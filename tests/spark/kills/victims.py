"""What there is to kill: processes below others, and those of a standalone cluster."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from tests.spark.standalone import StandaloneSpark

AWAY_MAX_S = 2.0


def descendants(pid: int) -> list[int]:
    """Return the processes that a process has started, and those that they have."""
    children: list[int] = []
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            children += map(int, (task / "children").read_text().split())
    return children + [below for child in children for below in descendants(child)]


def is_daemon(pid: int) -> bool:
    """Return whether a process forks Python workers: Spark does not notice the death of one that has none now."""
    try:
        status, command = Path(f"/proc/{pid}/status").read_text(), Path(f"/proc/{pid}/cmdline").read_bytes()
        parent = status.partition("PPid:")[2].split()[0]
        return b"pyspark.daemon" in command and name_of(int(parent)) == "java"
    except OSError:
        return False


def name_of(pid: int) -> str:
    """Return a process's name, or an empty text when it has ended."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def kill(pid: int) -> None:
    """Kill a process that may have ended."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def await_end(pids: Iterable[int], timeout_s: float) -> None:
    """Wait until these processes have gone."""
    deadline = time.monotonic() + timeout_s
    while left := [pid for pid in pids if Path(f"/proc/{pid}").exists()]:
        assert time.monotonic() < deadline, f"processes {left} are left"
        time.sleep(0.05)


def below(roots: Iterable[int], name: str) -> list[int]:
    """Return the processes below ``roots`` whose names begin with ``name``."""
    return [pid for root in roots for pid in descendants(root) if name_of(pid).startswith(name)]


def worker_pids(spark: StandaloneSpark | None) -> list[int]:
    """Return the workers of a cluster, none in local mode."""
    return [worker.process.pid for worker in spark.workers] if spark else []


def kill_one_of(pids: list[int], chance: random.Random) -> None:
    """Kill one of these processes, if there is one."""
    if pids:
        kill(chance.choice(pids))


def kill_executor(spark: StandaloneSpark | None, chance: random.Random) -> None:
    """Kill the JVM of an executor."""
    kill_one_of(below(worker_pids(spark), "java"), chance)


def kill_node(spark: StandaloneSpark | None, chance: random.Random) -> None:
    """Kill a worker of the cluster and its executor; it comes back a moment later."""
    assert spark is not None
    number = chance.randrange(len(spark.workers))
    family = descendants(spark.workers[number].process.pid)
    spark.kill_worker(number)
    for pid in family:
        kill(pid)
    time.sleep(chance.uniform(0, AWAY_MAX_S))
    spark.start_worker(number)
