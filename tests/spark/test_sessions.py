"""Users of the one session of a process."""

from __future__ import annotations

import struct
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark import SparkContext
from pyspark.sql import SparkSession

from pymq.spark.session import gateway


class SlowCurrent:
    """Counts users, and lets two threads that ask at once see the same count."""

    gateway = None

    def __init__(self) -> None:
        self._users = 0
        self._together = threading.Barrier(2)

    @property
    def users(self) -> int:
        found = self._users
        try:
            self._together.wait(0.2)
        except threading.BrokenBarrierError:  # one thread alone asks
            self._together.reset()
        return found

    @users.setter
    def users(self, count: int) -> None:
        self._users = count


def test_a_jvm_that_downloads_is_waited_for(tmp_path: Path) -> None:
    """The time is that without a word: each line of the log begins it again."""
    starting = gateway._Gateway.__new__(gateway._Gateway)
    starting.java = "Java"  # type: ignore[assignment]
    starting.process = SimpleNamespace(poll=lambda: None)  # type: ignore[assignment]
    starting.log_path, starting._answer_path = tmp_path / "log", tmp_path / "answer"
    starting.log_path.touch()
    ended = threading.Event()

    def download() -> None:
        while not ended.wait(0.1):
            with starting.log_path.open("a") as log:
                log.write("downloading\n")
            if starting.log_path.stat().st_size > 10 * len("downloading\n"):
                (tmp_path / "unfinished").write_bytes(struct.pack(">ii", 7, 1) + b"s")
                (tmp_path / "unfinished").rename(starting._answer_path)
                return

    thread = threading.Thread(target=download)
    thread.start()
    try:
        assert starting.wait_ready(0.8) == (7, "s")
    finally:
        ended.set()
        thread.join()
    starting._answer_path.unlink()
    with pytest.raises(gateway.SparkStartError, match=r"was not ready, and logged nothing for 0.1 s .*downloading"):
        starting.wait_ready(0.1)


def test_two_that_begin_and_end_at_once_are_both_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    session: Any = SimpleNamespace()
    current = SlowCurrent()
    monkeypatch.setattr(SparkContext, "_active_spark_context", session)
    monkeypatch.setattr(SparkSession, "builder", SimpleNamespace(getOrCreate=lambda: session))
    monkeypatch.setattr(gateway, "register", lambda _: None)
    monkeypatch.setattr(gateway, "_Current", current)

    def both(work: Any) -> None:
        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    both(gateway.session)
    assert current._users == 2
    both(lambda: gateway.close(session))
    assert current._users == 0
