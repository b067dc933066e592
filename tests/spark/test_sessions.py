"""Users of the one session of a process."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark import SparkContext
from pyspark.sql import SparkSession

from pymq.spark import gateway


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


def test_two_that_begin_and_end_at_once_are_both_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    session: Any = SimpleNamespace()
    current = SlowCurrent()
    monkeypatch.setattr(SparkContext, "_active_spark_context", session)
    monkeypatch.setattr(SparkSession, "builder", SimpleNamespace(getOrCreate=lambda: session))
    monkeypatch.setattr(gateway, "_register", lambda _: None)
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
