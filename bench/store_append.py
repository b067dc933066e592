"""Measures appends through the store's interface, without a broker: ``python -m bench.store_append``.

``scripts/bench store-append`` runs it. It appends batches of 64 messages, with one commit per batch, on one CPU. The
time includes all work for a message (units, digests, keys in the index). Prints a JSON object: messages per second
by kind.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import tempfile
import time

from pymq.clock import SystemClock
from pymq.model.draft import Draft
from pymq.model.javahash import tags_code
from pymq.store.disk.fs import RealFiles
from pymq.store.store import MessageStore

BATCH_COUNT = 64
BODY_BYTES = 128
QUEUES = 8
TICK_EVERY = 64  # commits between two ticks; a broker ticks at intervals
HOST = b"\x7f\x00\x00\x01\x00\x00\x2a\x9f"
TAG_CODE = tags_code("TagA")


def batches(count: int, *, keyed: bool) -> list[list[Draft]]:
    """Returns about ``count`` messages; ``keyed`` ones have a Java client's properties, the others only a tag."""
    body = b"x" * BODY_BYTES
    made: list[list[Draft]] = []
    for first in range(0, count, BATCH_COUNT):
        drafts: list[Draft] = []
        for number in range(first, first + BATCH_COUNT):
            own = b"UNIQ_KEY\x01%032X\x02WAIT\x01true\x02" % number if keyed else b""
            drafts.append(Draft(body, own + b"TAGS\x01TagA\x02", 1, HOST, TAG_CODE))
        made.append(drafts)
    return made


def measure(directory: str, load: list[list[Draft]]) -> float:
    """Appends the load to a new store and returns the messages per second."""
    store = MessageStore(root=directory, files=RealFiles(), clock=SystemClock())
    store.open()
    begin = time.perf_counter()
    for number, drafts in enumerate(load):
        store.stage_many("bench", number % QUEUES, drafts)
        store.commit()
        if number % TICK_EVERY == 0:
            store.tick()
    store.insert_waiting_keys()
    store.tick()
    seconds = time.perf_counter() - begin
    store.close()
    return len(load) * BATCH_COUNT / seconds


def main() -> None:
    """Prints the best of some rounds of both kinds, because other work on the machine only slows rounds down."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--messages", type=int, default=500_000)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--dir", help="directory for the store (a temporary directory)")
    chosen = options.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    importlib.import_module("pymq.store.index.bulk_keys")  # a broker has imported it after a while
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
