"""Ten million timers that wait on one broker: its memory, a clean start and one after a kill."""

from __future__ import annotations

from pathlib import Path

from bench import answers, frames, process
from bench.cases import Figure
from bench.control import BenchError, Control, connect
from bench.standalone import PyMQBroker
from tests.hostile.harness import MIB

TIMER_TOPIC = "rmq_sys_wheel_timer"
TOPIC = "bench_pending"
QUEUES = 8
BODY_BYTES = 16
IN_FLIGHT = 64
DELAYS = 24  # hours from two on: no timer is due before the case ends
RECEIVE_BYTES = 1 << 18
SETTLE_S = 3.0
START_S = 300.0
MEMORY_TARGET_MIB = 100.0  # that the timers add


def pending_timers(server: PyMQBroker, count: int) -> list[Figure]:
    """Measures ``server``, which runs, without timers, with ``count`` of them, and after both kinds of start.

    Raises BenchError when a put is refused, or one is missing in the end.
    """
    with Control(server.broker) as control:
        control.create_topic(TOPIC, QUEUES)
    _put(server.broker, 1)
    process.settle_cpu(SETTLE_S)
    before = _memory_mib(server.broker_pid)
    _put(server.broker, count - 1)
    process.settle_cpu(SETTLE_S)
    after = _memory_mib(server.broker_pid)
    server.stop(START_S)
    server.start(START_S)
    clean_s, clean = server.ready_s, _memory_mib(server.broker_pid)
    server.kill()
    server.start(START_S)
    killed_s = server.ready_s
    process.settle_cpu(SETTLE_S)
    killed = _memory_mib(server.broker_pid)
    with Control(server.broker) as control:
        waiting = sum(control.max_offsets(TIMER_TOPIC, 1))
    if waiting != count:
        raise BenchError(f"{waiting} timers wait, {count} were put")
    return [
        Figure("pending-timers, own memory that they add", after[0] - before[0], "MiB", MEMORY_TARGET_MIB),
        Figure("pending-timers, resident before", sum(before), "MiB", None),
        Figure("pending-timers, resident with them", sum(after), "MiB", None),
        Figure("pending-timers, own memory with them", after[0], "MiB", None),
        Figure("pending-timers, clean start", clean_s, "s", None),
        Figure("pending-timers, own memory after it", clean[0], "MiB", None),
        Figure("pending-timers, start after a kill", killed_s, "s", None),
        Figure("pending-timers, own memory after it and its work", killed[0], "MiB", None),
    ]


def _memory_mib(pid: int) -> tuple[float, float]:
    """Returns the process's own memory, and its pages of mapped files, which the system takes back at need."""
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    own, mapped = (int(lines[name].split()[0]) * 1024 / MIB for name in ("RssAnon", "RssFile"))
    return own, mapped


def _put(address: str, count: int) -> None:
    """Puts timers whose times lie an hour apart, in turn."""
    streams = [
        frames.SendStream(
            TOPIC,
            QUEUES,
            BODY_BYTES,
            first_number=number << 24,
            properties=f"TIMER_DELAY_SEC\x01{3600 * (2 + number)}\x02",
        )
        for number in range(DELAYS)
    ]
    counter, sent = answers.AnswerCounter(), 0
    sock = connect(address, None)
    try:
        while sent < count:
            view = streams[sent // IN_FLIGHT % DELAYS].take(min(IN_FLIGHT, count - sent))
            sock.sendall(view)
            sent += len(view) // streams[0].frame_bytes
            while counter.frames < sent - IN_FLIGHT:
                _receive(sock.recv(RECEIVE_BYTES), counter)
        while counter.frames < sent:
            _receive(sock.recv(RECEIVE_BYTES), counter)
    finally:
        sock.close()
    if counter.succeeded != count:
        raise BenchError(f"a put was refused: {counter.first_refusal}")


def _receive(data: bytes, counter: answers.AnswerCounter) -> None:
    if not data:
        raise BenchError("the broker closed a connection under load")
    counter.feed(data)
