"""Kills ``pymq spark-import`` at random points, and checks that its topic has every row once and in order by key."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pymq.spark.cluster import RemoteCluster
from pymq.spark.planner import make_plan
from pymq.spark.positions import LATEST, Position
from pymq.spark.ranges import ReadSettings
from pymq.spark.sources_of_rows import open_reader
from pymq.spark.topics import TopicChoice
from tests.interop.support.replicas import REPOSITORY
from tests.spark.kills.attack import descendants, kill, name_of
from tests.spark.kills.cluster import Pair

IMPORT_KINDS = ("driver", "jvm", "worker", "broker")
FILES = 10
ROWS_OF_A_FILE = 5_000
ROWS_OF_A_STEP = 1_000
KEYS = 97
QUEUES = 4
WAIT_MAX_S = 1.0
DEADLINE_S = 600.0


def write_files(directory: Path) -> None:
    """Write numbered rows with keys."""
    directory.mkdir(parents=True)
    for file in range(FILES):
        numbers = range(file * ROWS_OF_A_FILE, (file + 1) * ROWS_OF_A_FILE)
        rows = {"body": [b"%d" % number for number in numbers], "key": [f"k{number % KEYS}" for number in numbers]}
        pq.write_table(pa.table(rows), directory / f"{file:03d}.parquet")


def numbers_by_queue(namesrv: str, topic: str, window_rows: int) -> list[list[int]]:
    """Return the numbers in each queue, without repetitions of messages if there is a window."""
    with RemoteCluster(namesrv) as view:
        ranges = make_plan(view, TopicChoice((topic,)), Position(), Position(symbol=LATEST)).ranges
    found: dict[int, list[int]] = defaultdict(list)
    for part in ranges:
        settings = ReadSettings(columns=("body",), duplicate_window_rows=window_rows)
        for batch in open_reader(part, settings).batches():
            found[part.queue_id] += map(int, batch.column("body").to_pylist())
    return list(found.values())


def fault(queues: Sequence[Sequence[int]]) -> str:
    """Return what is wrong with the numbers of the queues, empty if all are there once and each key's in order."""
    last: dict[int, int] = {}
    for numbers in queues:
        for number in numbers:
            if number <= last.get(number % KEYS, -1):
                return f"{number} is doubled or out of order"
            last[number % KEYS] = number
    missing = FILES * ROWS_OF_A_FILE - sum(map(len, queues))
    return f"{missing} rows are missing" if missing else ""


class ImportAttack:
    """A pair of brokers, files in ``home``, and one import after the other until all kills are done."""

    def __init__(self, home: Path, seed: int) -> None:
        self.counts: Counter[str] = Counter()
        self._home = home
        self._random = random.Random(seed)
        write_files(home / "files")
        self._pair = Pair(home / "brokers")
        self._log = (home / "driver.log").open("wb")
        self._driver: subprocess.Popen[bytes] | None = None
        self._topic = ""

    def run(self, kinds: Sequence[str], points: int, deadline_s: float) -> str:
        """Kill at ``points`` points of each kind; return the first fault, or an empty text."""
        left = [kind for _ in range(points) for kind in kinds]
        rounds = 0
        while left and time.monotonic() < deadline_s:
            rounds += 1
            self._topic = f"killed-imports-{rounds}"
            self._pair.set_queues(self._topic, QUEUES)
            while left and time.monotonic() < deadline_s and self._came_to_a_step():
                kind = left.pop(0)
                self._hit(kind)
                self.counts[kind] += 1
            self._finish()
            stored = sum(map(len, numbers_by_queue(self._pair.namesrv.address, self._topic, 0)))
            found = fault(numbers_by_queue(self._pair.namesrv.address, self._topic, FILES * ROWS_OF_A_FILE))
            rows = FILES * ROWS_OF_A_FILE
            print(f"  {dict(self.counts)}: {rows} rows, {stored} stored: {found or 'each once'}", flush=True)
            if found:
                return found
        return ""

    def close(self) -> None:
        """End all processes."""
        if self._driver is not None:
            self._end_driver()
        self._pair.close()
        self._log.close()

    def _steps_done(self) -> int:
        return len(list((self._home / self._topic / "steps").glob("*.json")))

    def _came_to_a_step(self) -> bool:
        """Wait for another step and a random while more; return False when the import has ended before that."""
        driver = self._ensure_driver()
        before = self._steps_done()
        deadline = time.monotonic() + DEADLINE_S
        while self._steps_done() == before:
            assert time.monotonic() < deadline, f"no step in {DEADLINE_S:g} s: see {self._home / 'driver.log'}"
            if driver.poll() == 0:
                return False
            driver = self._ensure_driver()
            time.sleep(0.02)
        time.sleep(self._random.uniform(0, WAIT_MAX_S))
        return driver.poll() != 0

    def _ensure_driver(self) -> subprocess.Popen[bytes]:
        if self._driver is None or self._driver.poll() is not None:
            command = [sys.executable, "-m", "pymq", "spark-import", str(self._home / "files"), "-t", self._topic]
            command += ["--state", str(self._home / self._topic), "--rows-per-step", str(ROWS_OF_A_STEP)]
            command += ["--namesrv", self._pair.namesrv.address, "--master", "local[2]"]
            environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
            self._driver = subprocess.Popen(command, stdout=self._log, stderr=self._log, env=environment)
        return self._driver

    def _finish(self) -> None:
        for _ in range(100):
            if self._ensure_driver().wait(DEADLINE_S) == 0:
                self._driver = None
                return
        raise AssertionError(f"the import doesn't come to its end: {self._home / 'driver.log'}")

    def _hit(self, kind: str) -> None:
        actions: dict[str, Callable[[], None]] = {
            "driver": self._end_driver,
            "jvm": lambda: self._kill_one("java"),
            "worker": lambda: self._kill_one("python"),
            "broker": self._kill_broker,
        }
        actions[kind]()

    def _end_driver(self) -> None:
        assert self._driver is not None
        family = descendants(self._driver.pid)
        self._driver.kill()
        self._driver.wait()
        deadline = time.monotonic() + DEADLINE_S
        while any(Path(f"/proc/{pid}").exists() for pid in family):
            assert time.monotonic() < deadline, f"of {family} some are left"
            time.sleep(0.05)

    def _kill_one(self, name: str) -> None:
        assert self._driver is not None
        found = [pid for pid in descendants(self._driver.pid) if name_of(pid).startswith(name)]
        if found:
            kill(self._random.choice(found))

    def _kill_broker(self) -> None:
        self._pair.master.kill()
        time.sleep(self._random.uniform(0, 1))
        self._pair.master.start()
