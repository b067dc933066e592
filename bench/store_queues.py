"""Measures a store with many queues, without a broker: ``python -m bench.store_queues``.

``scripts/bench queues`` runs it. It gives each queue one message, and stops and starts the store: the first stop makes
all queue files, a start looks at each. Then it deletes the topic, and removes its files as a worker thread does. Prints
a JSON object: seconds of CPU time by step.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time

from pymq.clock import SystemClock
from pymq.model.draft import Draft
from pymq.store.disk.fs import RealFiles
from pymq.store.store import MessageStore

TURN_COUNT = 200  # messages of a commit
HOST = b"\x7f\x00\x00\x01\x00\x00\x2a\x9f"


def opened(directory: str) -> MessageStore:
    """Returns the store, which serves."""
    store = MessageStore(root=directory, files=RealFiles(), clock=SystemClock())
    store.open()
    return store


def measure(directory: str, queue_count: int) -> dict[str, float]:
    """Returns the CPU time of each step in seconds."""
    store = opened(directory)
    for queue_id in range(queue_count):
        store.stage("bench", queue_id, Draft(b"x", b"", 1, HOST))
        if queue_id % TURN_COUNT == TURN_COUNT - 1:
            store.commit()
    store.commit()
    found = {}
    begun_s = time.process_time()
    store.close()
    found["first_stop_s"] = time.process_time() - begun_s
    begun_s = time.process_time()
    store = opened(directory)
    found["start_s"] = time.process_time() - begun_s
    begun_s = time.process_time()
    store.close()
    found["stop_s"] = time.process_time() - begun_s
    store = opened(directory)
    begun_s = time.process_time()
    store.delete_topics("bench")
    found["delete_s"] = time.process_time() - begun_s
    begun_s = time.process_time()
    while store.has_waste:
        store.delete_segment(None)
    found["removal_s"] = time.process_time() - begun_s
    store.close()
    return found


def main() -> None:
    """Prints the figures as JSON."""
    options = argparse.ArgumentParser()
    options.add_argument("--queues", type=int, default=65_535)
    options.add_argument("--dir", default=None)
    given = options.parse_args()
    with tempfile.TemporaryDirectory(dir=given.dir) as directory:
        print(json.dumps(measure(directory, given.queues)))


if __name__ == "__main__":
    main()
