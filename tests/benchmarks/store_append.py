"""Measures appending through the store's own interface, without a broker: ``python -m tests.benchmarks.store_append``.

What ``scripts/bench store-append`` runs: batches of 64 messages, each batch one commit, on one CPU, with everything
that a message costs (units, digests, keys in the index). Prints one JSON object: messages a second by kind.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import tempfile
import time

from pymq.clock import SystemClock
from pymq.model.javahash import tags_code
from pymq.store.disk.fs import RealFiles
from pymq.store.store import MessageStore
from pymq.store.write.appender import BatchEntry

BATCH_COUNT = 64
BODY_BYTES = 128
QUEUES = 8
TICK_EVERY = 64  # commits between two ticks; a broker ticks by time
HOST = b"\x7f\x00\x00\x01\x00\x00\x2a\x9f"
TAG_CODE = tags_code("TagA")


def batches(count: int, *, keyed: bool) -> list[list[BatchEntry]]:
    """About ``count`` messages; ``keyed`` ones have properties as a Java client writes them, the others a tag alone."""
    body = b"x" * BODY_BYTES
    made: list[list[BatchEntry]] = []
    for first in range(0, count, BATCH_COUNT):
        entries: list[BatchEntry] = []
        for number in range(first, first + BATCH_COUNT):
            own = b"UNIQ_KEY\x01%032X\x02WAIT\x01true\x02" % number if keyed else b""
            entries.append((0, body, own + b"TAGS\x01TagA\x02", TAG_CODE))
        made.append(entries)
    return made


def measure(directory: str, load: list[list[BatchEntry]]) -> float:
    """Messages a second."""
    store = MessageStore(root=directory, files=RealFiles(), clock=SystemClock())
    store.open()
    begin = time.perf_counter()
    for number, entries in enumerate(load):
        store.stage_many("bench", number % QUEUES, entries, born_timestamp_ms=1, born_host=HOST)
        store.commit()
        if number % TICK_EVERY == 0:
            store.tick()
    if store.index is not None:
        store.index.drain()
    store.tick()
    seconds = time.perf_counter() - begin
    store.close()
    return len(load) * BATCH_COUNT / seconds


def main() -> None:
    """Both kinds, the best of some rounds each: other work on the machine only ever slows a round down."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--messages", type=int, default=500_000)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--dir", help="where the store is made (a temporary directory)")
    chosen = options.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    importlib.import_module("pymq.store.index.bulk_keys")  # as in a broker that runs for a while
    rates = {}
    for kind in ("plain", "keyed"):
        load = batches(chosen.messages, keyed=kind == "keyed")
        rounds = []
        for _ in range(chosen.rounds):
            with tempfile.TemporaryDirectory(dir=chosen.dir) as directory:
                rounds.append(measure(directory, load))
        rates[kind] = max(rounds)
    print(json.dumps(rates))


if __name__ == "__main__":
    main()
