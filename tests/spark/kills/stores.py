"""Kills exports of a store directory, which need no broker, and checks that the lake has every message once."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections import defaultdict
from pathlib import Path

import pyarrow.parquet as pq

from pymq.clock import SystemClock
from pymq.model.draft import Draft
from pymq.spark.export import export
from pymq.spark.export.options import ExportOptions
from pymq.spark.planning.store_place import StorePlace
from pymq.store.disk.fs import RealFiles
from pymq.store.store import MessageStore
from tests.spark.kills.commands import CommandAttack
from tests.spark.kills.files import QUEUES, SETTINGS, TOPIC, fault
from tests.spark.standalone import StandaloneSpark

MESSAGES = 24_000
ROWS_OF_A_TASK = 500
ROWS_OF_A_ROUND = 3_000
COMMIT_ROWS = 100


def write_store(root: Path, messages: int = MESSAGES) -> None:
    """Write numbered messages to the queues in turn."""
    store = MessageStore(root=str(root), files=RealFiles(), clock=SystemClock(), settings=SETTINGS)
    store.open()
    for number in range(messages):
        store.stage(TOPIC, number % QUEUES, Draft(b"%d " % number + b"x" * 100, b"", 1, bytes(8)))
        if number % COMMIT_ROWS == 0:
            store.commit()
    store.commit()
    store.close()


def numbers_in(lake: Path) -> list[int]:
    """Return the numbers of all rows in the lake, queue by queue, in the order of their offsets."""
    queues: dict[int, list[tuple[int, bytes]]] = defaultdict(list)
    for path in lake.rglob("*.parquet"):
        columns = pq.ParquetFile(path).read(columns=["queueId", "queueOffset", "body"]).to_pydict()
        for queue_id, offset, body in zip(*columns.values(), strict=True):
            queues[queue_id].append((offset, body))
    return [int(body.split()[0]) for rows in queues.values() for _, body in sorted(rows)]


class StoreAttack(CommandAttack):
    """Exports of one store directory into one lake after the other."""

    KINDS = ("driver", "jvm", "worker")

    def __init__(self, home: Path, seed: int, spark: StandaloneSpark | None = None) -> None:
        super().__init__(home, seed, spark)
        write_store(home / "store")
        self._lake = home

    def begin(self, number: int) -> None:
        self._lake = self.home / f"lake-{number}"

    def command(self) -> list[str]:
        return ["-m", "tests.spark.kills.stores", str(self.home / "store"), str(self._lake)]

    def steps_done(self) -> int:
        return len(list((self._lake / "_pymq" / "commits").glob("*.json")))

    def result(self) -> tuple[str, str]:
        numbers = numbers_in(self._lake)
        return f"{len(numbers)} rows", fault(numbers, MESSAGES - 1)


def main() -> None:
    """Export a directory with small tasks and rounds: a kill meets one of many."""
    parser = ArgumentParser(prog="python -m tests.spark.kills.stores")
    parser.add_argument("store")
    parser.add_argument("lake", type=Path)
    parser.add_argument("--master", required=True)
    parser.add_argument("--conf", action="append", default=[])
    given = parser.parse_args()
    conf = dict(pair.split("=", 1) for pair in given.conf)
    options = ExportOptions(store=StorePlace(given.store), output=given.lake, master=given.master, conf=conf)
    options.rows_per_task, options.rows_per_round = ROWS_OF_A_TASK, ROWS_OF_A_ROUND
    summary = export.run(options)
    print(f"{summary.rows} rows", file=sys.stderr)


if __name__ == "__main__":
    main()
