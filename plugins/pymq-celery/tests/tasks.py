"""The program of Celery's first steps, with the tasks that the tests want. Workers import it as ``tasks``."""

# mypy: disable-error-code="untyped-decorator, no-any-return"
from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from celery import Celery

app = Celery("tasks", broker=os.environ.get("TEST_BROKER", "pymq://localhost:1"), backend="rpc://")
app.conf.broker_transport_options = {"visibility_timeout": float(os.environ.get("TEST_VISIBILITY", "60"))}
app.conf.worker_send_task_events = True
app.conf.task_send_sent_event = True


@app.task
def add(x: int, y: int) -> int:
    return x + y


@app.task
def nap(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


@app.task(bind=True, max_retries=3)
def third_time(self: Any) -> int:
    if self.request.retries < 2:
        raise self.retry(countdown=0.1)
    return self.request.retries


@app.task(bind=True, acks_late=True, reject_on_worker_lost=True)
def kill_once(self: Any) -> bool:
    """Kill the pool process at the first delivery."""
    redelivered = bool(self.request.delivery_info["redelivered"])
    if not redelivered:
        os.kill(os.getpid(), signal.SIGKILL)
    return redelivered


@app.task
def spread(count: int) -> list[str]:
    """Send tasks from a pool process, which was forked from one that has a connection."""
    return [add.delay(number, 1).id for number in range(count)]


@app.task(acks_late=True, reject_on_worker_lost=True, ignore_result=True)
def note(path: str, number: int) -> None:
    time.sleep(0.01)
    with Path(path).open("a") as lines:
        lines.write(f"{number}\n")
