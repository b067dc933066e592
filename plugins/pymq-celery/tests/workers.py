"""Worker processes of Celery, and its commands, for tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kombu import pools

HERE = Path(__file__).parent
WAIT_S = 60.0


class Worker:
    """``celery worker`` in a process group of its own, with its log in a file."""

    def __init__(self, url: str, log: Path, *options: str, visibility: float = 60) -> None:
        self.log = log
        with log.open("ab") as out:
            self.process = subprocess.Popen(
                [*CELERY, "worker", "-l", "INFO", *options],
                cwd=HERE,
                env=environment(url, visibility),
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait_ready(self) -> None:
        self.wait_for("ready.")

    def wait_for(self, text: str) -> None:
        """Wait until the log has a text."""
        end_s = time.monotonic() + WAIT_S
        while text not in self.log.read_text(errors="replace"):
            assert self.process.poll() is None, self.log.read_text(errors="replace")
            assert time.monotonic() < end_s, self.log.read_text(errors="replace")
            time.sleep(0.02)

    def kill(self) -> None:
        """Kill the worker and its pool at once."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(WAIT_S)

    def stop(self) -> int:
        """Stop as SIGTERM does; return the exit code."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            return self.process.wait(WAIT_S)
        finally:
            if self.process.poll() is None:
                self.kill()


CELERY = [sys.executable, "-m", "celery", "-A", "tasks"]


def environment(url: str, visibility: float = 60) -> dict[str, str]:
    return {**os.environ, "TEST_BROKER": url, "TEST_VISIBILITY": str(visibility), "PYTHONUNBUFFERED": "1"}


@contextmanager
def worker(url: str, log: Path, *options: str, visibility: float = 60) -> Iterator[Worker]:
    """Run a worker that is ready."""
    running = Worker(url, log, *options, visibility=visibility)
    try:
        running.wait_ready()
        yield running
    finally:
        running.stop()


def close(app: Any) -> None:
    """Close an application and the connection on which it reads results."""
    results = getattr(app.backend, "result_consumer", None)
    if results is not None and results._consumer is not None:
        results.stop()
    app.close()


def close_all(app: Any) -> None:
    """Close an application, and the connections that all of this process share."""
    close(app)
    pools.reset()


def celery(url: str, *arguments: str) -> str:
    """Run a command of Celery and return what it prints."""
    done = subprocess.run(
        [*CELERY, *arguments], cwd=HERE, env=environment(url), capture_output=True, text=True, timeout=WAIT_S
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
