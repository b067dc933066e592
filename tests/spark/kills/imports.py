"""Kills ``pymq spark-import`` at random points, and checks that its topic has every row once and in order by key."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pymq.spark.planning.cluster import RemoteCluster
from pymq.spark.planning.planner import make_plan
from pymq.spark.planning.positions import LATEST, Position
from pymq.spark.planning.ranges import ReadSettings
from pymq.spark.planning.topics import TopicChoice
from pymq.spark.source.sources_of_rows import open_reader
from tests.spark.kills.cluster import Pair
from tests.spark.kills.commands import CommandAttack
from tests.spark.standalone import StandaloneSpark

FILES = 10
ROWS_OF_A_FILE = 5_000
ROWS_OF_A_STEP = 1_000
KEYS = 97
QUEUES = 4


def write_files(directory: Path, files: int = FILES) -> None:
    """Write numbered rows with keys."""
    directory.mkdir(parents=True)
    for file in range(files):
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


def fault(queues: Sequence[Sequence[int]], files: int = FILES) -> str:
    """Return what is wrong with the numbers of the queues, empty if all are there once and each key's in order."""
    last: dict[int, int] = {}
    for numbers in queues:
        for number in numbers:
            if number <= last.get(number % KEYS, -1):
                return f"{number} is doubled or out of order"
            last[number % KEYS] = number
    missing = files * ROWS_OF_A_FILE - sum(map(len, queues))
    return f"{missing} rows are missing" if missing else ""


class ImportAttack(CommandAttack):
    """Imports of the same files into one topic after the other, by a pair of brokers."""

    KINDS = ("driver", "jvm", "worker", "broker")

    def __init__(self, home: Path, seed: int, spark: StandaloneSpark | None = None) -> None:
        super().__init__(home, seed, spark)
        write_files(home / "files")
        self._pair = Pair(home / "brokers")
        self._topic = ""

    def begin(self, number: int) -> None:
        self._topic = f"killed-imports-{number}"
        self._pair.set_queues(self._topic, QUEUES)

    def command(self) -> list[str]:
        command = ["-m", "pymq", "spark-import", str(self.home / "files"), "-t", self._topic]
        command += ["--state", str(self.home / self._topic), "--rows-per-step", str(ROWS_OF_A_STEP)]
        return [*command, "--namesrv", self._pair.namesrv.address]

    def steps_done(self) -> int:
        return len(list((self.home / self._topic / "steps").glob("*.json")))

    def result(self) -> tuple[str, str]:
        rows = FILES * ROWS_OF_A_FILE
        stored = sum(map(len, numbers_by_queue(self._pair.namesrv.address, self._topic, 0)))
        return f"{rows} rows, {stored} stored", fault(numbers_by_queue(self._pair.namesrv.address, self._topic, rows))

    def actions(self) -> dict[str, Callable[[], None]]:
        return {**super().actions(), "broker": self._kill_broker}

    def close(self) -> None:
        super().close()
        self._pair.close()

    def _kill_broker(self) -> None:
        self._pair.master.kill()
        time.sleep(self.random.uniform(0, 1))
        self._pair.master.start()
