"""Workers and the broker are killed under load. Every task that was sent runs; some run twice."""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from celery import Celery
from kombu.exceptions import OperationalError

from pymq.errors import UnreachableError
from pymq.testing.broker import TestBroker

KILL_COUNT = int(os.environ.get("PYMQ_CELERY_KILLS", "12"))
WORKER_COUNT = 3
BROKER_KILLED_EVERY = 4  # kills of workers
VISIBILITY_S = 2
DRAIN_S = 120.0


class Sender:
    """Sends numbered tasks until it is stopped; counts those that the broker took."""

    def __init__(self, workers: ModuleType, url: str, out: Path) -> None:
        self.sent: list[int] = []
        self._out = out
        self._workers = workers
        self._app = Celery("tasks", broker=url, set_as_current=False)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stopping.wait(0.004):
            number += 1
            try:
                self._app.send_task("tasks.note", (str(self._out), number), retry=False, ignore_result=True)
            except (OperationalError, UnreachableError):
                continue  # not answered: it may run or not
            self.sent.append(number)

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()
        self._workers.close_all(self._app)


def numbers_in(out: Path) -> Counter[int]:
    return Counter(int(line) for line in out.read_text().split()) if out.exists() else Counter()


@pytest.mark.slow
def test_no_task_is_lost_when_workers_and_the_broker_are_killed(
    workers: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng, out = random.Random(7), tmp_path / "out"
    broker_kills = 0
    with TestBroker() as broker:
        url = f"pymq://{broker.namesrv}/kills"

        def start(number: int) -> Any:
            return workers.Worker(
                url, tmp_path / f"log{number}", "-c", "2", "-n", f"w{number}@here", visibility=VISIBILITY_S
            )

        running = [start(number) for number in range(WORKER_COUNT)]
        for each in running:
            each.wait_ready()
        sender = Sender(workers, url, out)
        try:
            begun_s = time.monotonic()
            for kill in range(1, KILL_COUNT + 1):
                time.sleep(rng.uniform(0.2, 1.5))
                number = rng.randrange(WORKER_COUNT)
                running[number].kill()
                running[number] = start(number)
                if kill % BROKER_KILLED_EVERY == 0:
                    broker.kill()
                    time.sleep(0.2)
                    broker.restart()
                    broker_kills += 1
        finally:
            sender.stop()
        loaded_s = time.monotonic() - begun_s
        try:
            end_s = time.monotonic() + DRAIN_S
            while missing := set(sender.sent) - set(numbers_in(out)):
                assert time.monotonic() < end_s, f"{len(missing)} tasks are missing: {sorted(missing)[:20]}"
                time.sleep(0.2)
        finally:
            for each in running:
                each.kill()
    ran = numbers_in(out)
    with capsys.disabled():
        print(
            f"\n{len(sender.sent)} tasks in {loaded_s:.0f} s, {KILL_COUNT} workers and {broker_kills} brokers killed: "
            f"0 lost, {sum(count > 1 for count in ran.values())} ran more than once"
        )
