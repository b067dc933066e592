"""Work on an export that is killed at each of its steps in turn, in a process that forks before it has threads."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pymq.spark.lake.commits import ExportDirectory

ROOT = Path(__file__).parents[2]


def run_driver(driver: str, first: Path, steps: int) -> None:
    """Copy the export ``first`` for each further step and run ``driver``, the text of a program that calls
    :func:`work_on_each`, on all of them. The first must be killed, and the last one must not.
    """
    for step in range(1, steps):
        shutil.copytree(first, first.parent / f"{step:02d}")
    done = subprocess.run(
        [sys.executable, "-c", driver, str(first.parent)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    codes = [int(word) for word in done.stdout.split()]
    assert len(codes) == steps and codes[0] == -signal.SIGKILL and codes[-1] == 0


def work_on_each(
    calls: Sequence[tuple[Any, str]],
    opened: Callable[[Path], ExportDirectory],
    work: Callable[[ExportDirectory, Path], object],
) -> None:
    """In the driver: open each export and work on it, killed at its number of ``calls`` (module or class, name)."""
    for number, home in enumerate(sorted(Path(sys.argv[1]).iterdir())):
        child = os.fork()
        if not child:
            log = opened(home)
            kill_at(number, calls)
            work(log, home)
            log.close()
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def kill_at(step: int, calls: Sequence[tuple[Any, str]]) -> None:
    """Kill this process before the ``step``-th of these calls (module or class, name), counted from 0."""
    left = [step]

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*arguments: Any, **named: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*arguments, **named)

        return wrapper

    for place, name in calls:
        setattr(place, name, counted(getattr(place, name)))
