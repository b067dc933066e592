"""Reads a store directory while a process writes it, and copies of it after SIGKILL; every message must be there once.

``scripts/kill-streams --mode files`` runs it. No Spark is needed: its tasks read with the same StoreReader.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from pathlib import Path

from pymq.clock import SystemClock
from pymq.model.draft import Draft
from pymq.spark.planning.planner import make_plan
from pymq.spark.planning.positions import LATEST, Position
from pymq.spark.planning.ranges import ReadSettings
from pymq.spark.planning.store_place import StorePlace
from pymq.spark.planning.store_view import StoreView
from pymq.spark.planning.topics import TopicChoice
from pymq.spark.reading.store_reader import StoreReader
from pymq.store.disk.fs import RealFiles
from pymq.store.store import MessageStore, StoreSettings

MODULE = "tests.spark.kills.files"
TOPIC = "kills"
QUEUES = 3
SETTINGS = StoreSettings(segment_size_bytes=1 << 16, queue_file_size_bytes=4000)
COMMITS_MAX = 400


def write(root: Path, first: int, seed: str) -> None:
    """Appends numbered messages from ``first`` on until killed, and prints the last number of each commit."""
    chance = random.Random(seed)
    store = MessageStore(root=str(root), files=RealFiles(), clock=SystemClock(), settings=SETTINGS)
    store.open()
    number = first
    while True:
        for _ in range(chance.randint(1, 20)):
            body = b"%d " % number + b"x" * chance.randint(0, 300)
            queue_id = number % QUEUES
            store.stage(TOPIC, queue_id, Draft(body, b"", 1, bytes(8)))
            number += 1
        store.commit()
        if chance.random() < 0.05:
            store.tick()
        print(number - 1, flush=True)


def numbers_in(root: Path, *, while_running: bool = False) -> list[int]:
    """Returns the numbers of all messages, queue by queue in order."""
    place = StorePlace(str(root), while_running=while_running)
    with StoreView(place) as view:
        parts = view.split(make_plan(view, TopicChoice(), Position(), Position(symbol=LATEST)).ranges)
    reading = ReadSettings(columns=("body",), store=place)
    bodies = [body for part in parts for batch in StoreReader(part, reading).batches() for body in batch[0].to_pylist()]
    return [int(body.split()[0]) for body in bodies]


def fault(found: list[int], acknowledged: int) -> str:
    """Returns what is wrong with the numbers that were read, empty if all are there once and in order."""
    for queue_id in range(QUEUES):
        own = [number for number in found if number % QUEUES == queue_id]
        if own != sorted(own):
            return f"queue {queue_id} is out of order"
    if sorted(found) != list(range(len(found))):
        return "messages are missing or doubled"
    return "" if len(found) > acknowledged else f"{acknowledged + 1} messages were committed, {len(found)} are there"


def attack(home: Path, seed: int, points: int) -> str:
    """Kills the writer at ``points`` random places; returns the first fault, or an empty text."""
    chance = random.Random(seed)
    root, copy = home / "store", home / "copy"
    written = -1
    for point in range(points):
        command = [sys.executable, "-m", MODULE, "--write", str(root), str(written + 1), str(chance.random())]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            try:
                for _ in range(chance.randint(1, COMMITS_MAX)):
                    written = int(writer.stdout.readline())
                wrong = fault(numbers_in(root, while_running=True), written)
            finally:
                writer.kill()
            written = max([written, *(int(line) for line in writer.stdout.read().split("\n")[:-1])])
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(root, copy)
        found = numbers_in(copy)
        if wrong := wrong or fault(found, written):
            return f"point {point}: {wrong}"
        written = len(found) - 1
    return ""


if __name__ == "__main__":
    _, _, store_directory, first_number, given_seed = sys.argv
    write(Path(store_directory), int(first_number), given_seed)
