"""Attacks a stream or a following export at random points, lets it finish, and compares its rows with the brokers'."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

from pymq.spark.export.logs import table_ends
from pymq.spark.tables.iceberg_name import iceberg_name
from tests.interop.support.replicas import REPOSITORY
from tests.spark.kills.cluster import Pair, Producer, Row, copied_rows, queue_ends, stored_rows
from tests.spark.kills.driver import COLUMNS, PIPELINE_TABLE, copy_of
from tests.spark.kills.victims import (
    await_end,
    below,
    descendants,
    kill,
    kill_executor,
    kill_node,
    kill_one_of,
    name_of,
    worker_pids,
)
from tests.spark.standalone import StandaloneSpark

TOPIC = "killed-streams"
DEADLINE_S = 1800.0
WAIT_MAX_S = 2.0
AWAY_S = 30.0
LOCAL = "local[2]"
EXPORT_LOG = "out/_pymq/commits"
_BOTH = ("driver", "jvm", "worker", "broker", "failover", "lag", "expand", "retention", "away")
_COPIES = ("driver", "jvm", "worker", "broker")
_NO_SPARK = ("driver", "broker", "failover", "lag", "expand", "retention", "away", "moves")
KINDS = {
    "stream": _BOTH,
    "write": _COPIES,
    "update": _COPIES,
    "pipeline": _COPIES,
    "archive": _COPIES,
    "follow": (*_BOTH, "moves"),
    "delta": (*_BOTH, "moves"),
    "iceberg": (*_BOTH, "moves"),
    "upsert": (*_BOTH, "moves"),
    "small": _NO_SPARK,
}
TABLES = {"delta": "delta", "iceberg": "iceberg", "upsert": "delta"}
# What only a standalone cluster has: an executor's JVM, and a worker with its executor.
CLUSTER_KINDS = ("executor", "node")


class Rows(NamedTuple):
    """What the brokers have in the end, what was read, what the brokers answered, and the keys of all messages."""

    stored: list[Row]
    read: list[Row]
    answered: set[Row]
    sent: set[str]


class Attack:
    """One run: a pair of brokers, a producer, and the process in ``home`` that is attacked.

    It runs in local mode, or on ``spark``, which the caller ends.
    """

    def __init__(self, mode: str, home: Path, seed: int, spark: StandaloneSpark | None = None) -> None:
        self.mode = mode
        self.home = home
        self._spark = spark
        self.counts: dict[str, int] = {}
        self._random = random.Random(seed)
        home.mkdir(parents=True, exist_ok=True)
        self._pair = Pair(home / "brokers")
        self._producer = Producer(self._pair, TOPIC)
        self._producer.start()
        self._pair.set_queues(copy_of(TOPIC), self._producer.queues)
        self._driver: subprocess.Popen[bytes] | None = None
        self._log = (home / "driver.log").open("wb")

    def hit(self, kind: str) -> None:
        """Wait until rows come, and a random while more; then do what ``kind`` says."""
        commits = [str(self._random.randint(1, 3))] if kind == "moves" else []
        if commits:
            self._end_driver()
        self._ensure_driver(commits)
        if not commits:
            self._await_progress()
            time.sleep(self._random.uniform(0, WAIT_MAX_S))
        {
            "driver": self._end_driver,
            "jvm": self._kill_jvm,
            "worker": self._kill_worker,
            "broker": self._kill_broker,
            "failover": self._fail_over,
            "lag": self._lag,
            "away": self._away,
            "moves": self._await_death,
            "expand": self._expand,
            "retention": self._retain,
            "executor": lambda: kill_executor(self._spark, self._random),
            "node": lambda: kill_node(self._spark, self._random),
        }[kind]()
        self.counts[kind] = self.counts.get(kind, 0) + 1

    def finish(self) -> Rows:
        """Let all be read; return what there is."""
        self._producer.stop()
        self._ensure_driver([])
        (self.home / "stop").touch()
        while (code := self._wait_for_driver()) != 0:
            assert self._driver_starts < 1000, f"the driver ended with {code}: {self.home / 'driver.log'}"
            self._ensure_driver([])
        self._log.flush()
        log = (self.home / "driver.log").read_text(errors="replace")
        assert "made again" not in log and "created again" not in log, f"no topic was: see {self.home / 'driver.log'}"
        stored = stored_rows(self._pair.namesrv.address, TOPIC)
        return Rows(stored, self.output_rows(), self._producer.answered, self._producer.sent)

    def close(self) -> None:
        """End all processes."""
        self._producer.stop()
        self._end_driver()
        self._pair.close()
        self._log.close()

    def output_rows(self) -> list[Row]:
        """Return the rows that readers see: of a stream those its log of files names, of an export all files'.

        Of a topic that a stream writes, those that a reader without repetitions sees.
        """
        if self.mode == "update":  # its groups are shuffled, so they have no order
            return sorted(copied_rows(self._pair.namesrv.address, copy_of(TOPIC)))
        if self.mode in ("write", "pipeline"):
            return copied_rows(self._pair.namesrv.address, copy_of(TOPIC))
        out = self.home / "out"
        if table_format := TABLES.get(self.mode):
            return sorted(zip(*(column.to_pylist() for column in table_rows(out, table_format)), strict=True))
        files = committed_files(out) if self.mode == "stream" else [str(path) for path in out.rglob("*.parquet")]
        tables = [pq.read_table(file, columns=["queueId", "queueOffset", "msgId"], partitioning=None) for file in files]
        return sorted(row for table in tables for row in zip(*table.to_pydict().values(), strict=True))

    _driver_starts = 0

    def _ensure_driver(self, commits: list[str]) -> None:
        if self._driver is not None and self._driver.poll() is None:
            return
        self._driver_starts += 1
        master = self._spark.url if self._spark else LOCAL
        arguments = [self.mode, self._pair.namesrv.address, TOPIC, str(self.home), master, *commits]
        self._driver = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.kills.driver", *arguments],
            stdout=self._log,
            stderr=self._log,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        )

    def _wait_for_driver(self) -> int:
        assert self._driver is not None
        return self._driver.wait(DEADLINE_S)

    def _progress(self) -> int:
        if table_format := TABLES.get(self.mode):
            pattern = "_delta_log/*.json" if table_format == "delta" else "**/metadata/*.metadata.json"
            return len(list((self.home / "out").glob(pattern))) - 1
        files = dict.fromkeys(("follow", "small", "archive"), EXPORT_LOG)
        places = {**files, "pipeline": f"checkpoint/{PIPELINE_TABLE}/commits"}
        folder = self.home / places.get(self.mode, "checkpoint/commits")
        names = [path.stem for path in folder.glob("*") if path.stem.isdigit()] if folder.is_dir() else []
        return max(map(int, names), default=-1)

    def _committed(self) -> dict[int, int]:
        """Return the committed end of each queue."""
        number = self._progress()
        if number < 0:
            return {}
        if self.mode == "stream":
            lines = (self.home / f"checkpoint/offsets/{number}").read_text().splitlines()
            brokers = json.loads(lines[2])[TOPIC]
            return {int(queue): end for queues in brokers.values() for queue, end in queues.items()}
        ends: dict[int, int] = {}
        if table_format := TABLES.get(self.mode):
            found = json.loads(table_ends(TOPIC, table_format, str(self.home / "out")))[TOPIC]
            return {int(queue): end for queues in found.values() for queue, end in queues.items()}
        for path in (self.home / EXPORT_LOG).glob("*.json"):
            with suppress(FileNotFoundError):  # folded meanwhile: the next look finds its end
                for part in json.loads(path.read_text())["ranges"]:
                    ends[part["queue_id"]] = max(ends.get(part["queue_id"], 0), part["to_offset"])
        return ends

    def _await_progress(self) -> None:
        """Wait for another commit."""
        before = self._progress()
        self._until(lambda: self._progress() > before, "a commit")

    def _until(self, done: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not done():
            assert time.monotonic() < deadline, f"no {what} in {DEADLINE_S:g} s: see {self.home / 'driver.log'}"
            self._ensure_driver([])
            time.sleep(0.05)

    def _end_driver(self) -> None:
        """Kill the process, and wait until its JVM has noticed: two queries may not share a checkpoint."""
        if self._driver is None:
            return
        family = descendants(self._driver.pid)
        self._driver.kill()
        self._driver.wait()
        await_end(family, DEADLINE_S)

    def _kill_jvm(self) -> None:
        assert self._driver is not None
        family = descendants(self._driver.pid)
        kill(next((pid for pid in family if name_of(pid) == "java"), self._driver.pid))
        self._wait_for_driver()
        await_end(family, DEADLINE_S)

    def _kill_worker(self) -> None:
        """Kill a Python process: one that plans, which the driver's JVM has, or one that reads."""
        assert self._driver is not None
        kill_one_of(below([self._driver.pid, *worker_pids(self._spark)], "python"), self._random)

    def _expand(self) -> None:
        """Give the topic another queue, send to it, and end the driver while it is new."""
        self._pair.set_queues(TOPIC, self._producer.queues + 1)
        self._producer.queues += 1
        time.sleep(self._random.uniform(0, 2))
        self._end_driver()

    def _retain(self) -> None:
        """Let the brokers delete what is read by now, and end the driver meanwhile."""
        log_end = self._pair.master.log_end()
        ends = queue_ends(self._pair.namesrv.address, TOPIC)

        def has_read_all() -> bool:
            done = self._committed()
            return all(done.get(queue_id, 0) >= end for queue_id, end in ends.items())

        self._until(has_read_all, "commit of all messages")
        self._pair.expire(log_end)
        time.sleep(self._random.uniform(0, 1))
        self._end_driver()

    def _kill_broker(self) -> None:
        self._pair.master.kill()
        time.sleep(self._random.uniform(0, 1))
        self._pair.master.start()

    def _fail_over(self) -> None:
        """Kill the master, and wait until all that the slave has is read from it."""
        self._pair.master.kill()
        time.sleep(self._random.uniform(1, 4))
        self._ensure_driver([])
        self._pair.master.start()

    def _lag(self) -> None:
        """Kill the master when the process has read more than its asynchronous slave has, which then serves alone."""
        self._pair.restart_master("ASYNC_MASTER")
        self._pair.slave.kill()
        for _ in range(2):
            self._await_progress()
        self._pair.master.kill()
        self._pair.slave.start()
        time.sleep(self._random.uniform(1, 4))
        self._ensure_driver([])
        self._pair.restart_master("SYNC_MASTER")

    def _away(self) -> None:
        self._pair.master.kill()
        self._pair.slave.kill()
        time.sleep(AWAY_S)
        self._pair.master.start()
        self._pair.slave.start()

    def _await_death(self) -> None:
        assert self._driver is not None
        family: list[int] = []
        deadline = time.monotonic() + DEADLINE_S
        while self._driver.poll() is None:
            assert time.monotonic() < deadline, "the driver did not come to its commit"
            family = descendants(self._driver.pid) or family
            time.sleep(0.05)
        assert self._driver.returncode == -signal.SIGKILL
        await_end(family, DEADLINE_S)


def table_rows(out: Path, table_format: str) -> list[Any]:
    """Return the columns of the rows that a reader of the format sees."""
    if table_format == "delta":
        return DeltaTable(str(out)).to_pyarrow_table(columns=list(COLUMNS)).columns
    name = iceberg_name(None, None, out)
    table = load_catalog(name.catalog, **name.properties).load_table(name.table)
    return table.scan(selected_fields=COLUMNS).to_arrow().select(list(COLUMNS)).columns


def committed_files(out: Path) -> list[str]:
    """Return the files that Spark's log of a file sink names."""
    log = out / "_spark_metadata"
    entries = sorted((int(path.stem), path.suffix == ".compact", path) for path in log.glob("[0-9]*"))
    first = max((number for number, is_compact, _ in entries if is_compact), default=-1)
    found: dict[str, None] = {}
    for number, _, path in entries:
        if number >= first:
            for line in path.read_text().splitlines()[1:]:
                found[json.loads(line)["path"].removeprefix("file://")] = None
    return list(found)


def faults(rows: Rows) -> list[str]:
    """Return what is wrong with the rows that were read: all must be there once, and those of a queue in its order.

    What retention deleted is known from the brokers' answers.
    """
    found = []
    if late := out_of_order(rows.read):
        found.append(f"{len(late)} rows come after later ones of their queue, the first {late[0]}")
    read, there = set(rows.read), set(rows.stored) | rows.answered
    for what, count in (
        ("rows", len({row[:2] for row in rows.read})),
        ("messages", len({key for _, _, key in rows.read})),
    ):
        if count != len(rows.read):
            found.append(f"{len(rows.read) - count} {what} are there more than once")
    if missing := there - read:
        found.append(f"{len(missing)} rows are missing, the first {min(missing)}")
    # A message without an answer may be stored, and deleted since.
    if extra := {row for row in read - there if row[2] not in rows.sent}:
        found.append(f"{len(extra)} rows are of no message, the first {min(extra)}")
    return found


def out_of_order(rows: list[Row]) -> list[Row]:
    """Return the rows that come after a later one of their queue."""
    last: dict[int, int] = {}
    late = []
    for row in rows:
        queue_id, offset, _ = row
        if offset < last.get(queue_id, -1):
            late.append(row)
        last[queue_id] = max(offset, last.get(queue_id, -1))
    return late
