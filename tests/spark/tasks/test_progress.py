"""Progress counts: they arrive, only those with the listener's token count, and without a listener none is sent."""

from __future__ import annotations

import json
import queue
import socket
import time

import pytest

from pymq.spark.tasks import progress
from pymq.spark.tasks.progress import RowListener, RowSender

WAIT_S = 10


def test_counts_of_all_tasks_are_summed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "INTERVAL_S", 0.0)
    sums: queue.Queue[int] = queue.Queue()
    with RowListener(sums.put) as listener:
        first, second = RowSender(listener.target, "a"), RowSender(listener.target, "b")
        first.add(10)
        assert sums.get(timeout=WAIT_S) == 10
        second.add(5)
        assert sums.get(timeout=WAIT_S) == 15
        first.add(10)
        assert sums.get(timeout=WAIT_S) == 25
        first.close()
        second.close()


def test_unrelated_senders_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "INTERVAL_S", 0.0)
    sums: queue.Queue[int] = queue.Queue()
    with RowListener(sums.put) as listener, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        host, port = listener.target.rpartition("/")[0].split(":")
        for message in (b"\xff", b"[]", json.dumps(["wrong", "a", 99]).encode()):
            other.sendto(message, (host, int(port)))
        sender = RowSender(listener.target, "a")
        sender.add(1)
        assert sums.get(timeout=WAIT_S) == 1
        sender.close()


def test_the_end_waits_for_no_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "INTERVAL_S", 10.0 * WAIT_S)
    begin_s = time.monotonic()
    with RowListener(lambda rows: None):
        pass
    assert time.monotonic() - begin_s < WAIT_S


def test_without_a_target_nothing_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[object, object]] = []

    class RecordingSocket:
        def __init__(self, *kind: int) -> None:
            pass

        def sendto(self, message: bytes, address: tuple[str, int]) -> None:
            sent.append((json.loads(message), address))

        def close(self) -> None:
            pass

    monkeypatch.setattr(socket, "socket", RecordingSocket)
    for target in ("", "driver:7/token"):
        sender = RowSender(target, "a")
        sender.add(3)
        sender.close()
    assert sent == [(["token", "a", 3], ("driver", 7))]
