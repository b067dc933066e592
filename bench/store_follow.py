"""Measures how a store follows a master's log, without a broker: ``python -m bench.store_follow``.

``scripts/bench store-follow`` runs it on one CPU. A log of keyed 128-byte messages, round robin over queues, is copied
in pieces of about 256 messages, and in pieces of 1 MiB; each piece is dispatched at once. Prints a JSON object:
microseconds of CPU per message, and MB of log per second of CPU.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import tempfile
import time

from bench.store_append import QUEUES, TICK_EVERY, batches
from pymq.clock import SystemClock
from pymq.store.disk.fs import RealFiles
from pymq.store.store import MessageStore

PIECE_MESSAGES = 256
CATCH_UP_BYTES = 1 << 20


def opened(directory: str) -> MessageStore:
    store = MessageStore(root=directory, files=RealFiles(), clock=SystemClock())
    store.open()
    return store


def filled(directory: str, count: int) -> MessageStore:
    """Returns a master's store with about ``count`` messages."""
    store = opened(directory)
    for number, drafts in enumerate(batches(count, keyed=True)):
        for place, draft in enumerate(drafts):
            store.stage("bench", (number + place) % QUEUES, draft)
        store.commit()
        if number % TICK_EVERY == 0:
            store.tick()
    return store


def measure(directory: str, log: list[bytes]) -> float:
    """Returns the seconds of CPU to copy the pieces, including units, keys and digests."""
    store = opened(directory)
    follower = store.follow()
    begin = time.process_time()
    for number, piece in enumerate(log):
        follower.append(follower.end, piece)
        follower.dispatch()
        if number % TICK_EVERY == 0:
            store.tick()
    store.insert_waiting_keys()
    store.tick()
    seconds = time.process_time() - begin
    store.close()
    return seconds


def pieces(store: MessageStore, size: int) -> list[bytes]:
    """Returns the store's log in pieces of up to ``size`` bytes."""
    made: list[bytes] = []
    at = store.physical_min_offset
    while at < store.physical_max_offset:
        made.append(bytes(store.read_log(at, size)))
        at += len(made[-1])
    return made


def main() -> None:
    """Prints the best of some rounds for both sizes, because other work on the machine only slows rounds down."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--messages", type=int, default=500_000)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--dir", help="directory for the stores (a temporary directory)")
    chosen = options.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    importlib.import_module("pymq.store.dispatch.bulk_dispatch")  # a broker has imported it after a while
    with tempfile.TemporaryDirectory(dir=chosen.dir) as directory:
        master = filled(directory, chosen.messages)
        count = sum(queue.max_offset for queue in master.queue_views())
        size = master.physical_max_offset
        seconds = []
        for piece_bytes in (size // count * PIECE_MESSAGES, CATCH_UP_BYTES):
            log = pieces(master, piece_bytes)
            rounds = []
            for _ in range(chosen.rounds):
                with tempfile.TemporaryDirectory(dir=chosen.dir) as target:
                    rounds.append(measure(target, log))
            seconds.append(min(rounds))
        master.close()
    print(json.dumps({"follow_us": seconds[0] / count * 1e6, "catch_up_mb_s": size / seconds[1] / 1e6}))


if __name__ == "__main__":
    main()
