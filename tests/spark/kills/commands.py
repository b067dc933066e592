"""Kills commands of Spark at random points, runs them again until they end, and checks what they have made."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.interop.support.replicas import REPOSITORY
from tests.spark.kills.victims import (
    await_end,
    below,
    descendants,
    kill_executor,
    kill_node,
    kill_one_of,
    worker_pids,
)
from tests.spark.standalone import CONF, StandaloneSpark

WAIT_MAX_S = 1.0
DEADLINE_S = 600.0
RUNS_MAX = 100
LOCAL = "local[2]"


class CommandAttack(ABC):
    """Runs of one command in ``home``, in local mode or on ``spark``, which the caller ends."""

    KINDS: tuple[str, ...]

    def __init__(self, home: Path, seed: int, spark: StandaloneSpark | None = None) -> None:
        self.counts: Counter[str] = Counter()
        self.home = home
        self.random = random.Random(seed)
        self._spark = spark
        self._process: subprocess.Popen[bytes] | None = None
        home.mkdir(parents=True, exist_ok=True)
        self._log = (home / "driver.log").open("wb")

    @abstractmethod
    def begin(self, number: int) -> None:
        """Prepare the run with this number: it makes something new."""

    @abstractmethod
    def command(self) -> list[str]:
        """Return the arguments of Python for the run, without the master."""

    @abstractmethod
    def steps_done(self) -> int:
        """Return a number that grows while the run makes progress."""

    @abstractmethod
    def result(self) -> tuple[str, str]:
        """Return what the run that ended has made, and the first fault in it, empty if there is none."""

    def actions(self) -> dict[str, Callable[[], None]]:
        """Return what each kind of attack does."""
        return {
            "driver": self._end_process,
            "jvm": lambda: kill_one_of(self._below("java"), self.random),
            "worker": lambda: kill_one_of(self._below("python", *worker_pids(self._spark)), self.random),
            "executor": lambda: kill_executor(self._spark, self.random),
            "node": lambda: kill_node(self._spark, self.random),
        }

    def run(self, kinds: Sequence[str], points: int, deadline_s: float) -> str:
        """Kill at ``points`` points of each kind; return the first fault, or an empty text."""
        left = [kind for _ in range(points) for kind in kinds]
        runs = 0
        while left and time.monotonic() < deadline_s:
            runs += 1
            self.begin(runs)
            while left and time.monotonic() < deadline_s and self._came_to_a_step():
                kind = left.pop(0)
                self.actions()[kind]()
                self.counts[kind] += 1
            self._finish()
            what, found = self.result()
            print(f"  {dict(self.counts)}: {what}: {found or 'each once'}", flush=True)
            if found:
                return found
        return ""

    def close(self) -> None:
        """End all processes."""
        if self._process is not None:
            self._end_process()
        self._log.close()

    def _came_to_a_step(self) -> bool:
        """Wait for another step and a random while more; return False when the run has ended before that."""
        process = self._ensure_process()
        before = self.steps_done()
        deadline = time.monotonic() + DEADLINE_S
        while self.steps_done() == before:
            assert time.monotonic() < deadline, f"no step in {DEADLINE_S:g} s: see {self.home / 'driver.log'}"
            if process.poll() == 0:
                return False
            process = self._ensure_process()
            time.sleep(0.02)
        time.sleep(self.random.uniform(0, WAIT_MAX_S))
        return process.poll() != 0

    def _ensure_process(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            master = ["--master", self._spark.url if self._spark else LOCAL]
            for name, value in CONF.items() if self._spark else ():
                master += ["--conf", f"{name}={value}"]
            environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
            command = [sys.executable, *self.command(), *master]
            self._process = subprocess.Popen(command, stdout=self._log, stderr=self._log, env=environment)
        return self._process

    def _finish(self) -> None:
        for _ in range(RUNS_MAX):
            if self._ensure_process().wait(DEADLINE_S) == 0:
                self._process = None
                return
        raise AssertionError(f"the command doesn't come to its end: {self.home / 'driver.log'}")

    def _end_process(self) -> None:
        assert self._process is not None
        family = descendants(self._process.pid)
        self._process.kill()
        self._process.wait()
        await_end(family, DEADLINE_S)

    def _below(self, name: str, *more: int) -> list[int]:
        assert self._process is not None
        return below([self._process.pid, *more], name)
