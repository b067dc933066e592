"""Latency load: sends at a fixed rate and times each message from its send to its arrival in a long poll."""

import select
import time

from bench import answers, frames
from bench.control import BenchError, Control, connect
from bench.result import Latency

RECEIVE_BYTES = 1 << 16
PULL_LIMIT = 32


class LatencyLoad:
    """Sends at a fixed rate to queues, each with a waiting long poll."""

    def __init__(self, address: str, topic: str, queues: int, group: str, rate: int = 1000) -> None:
        self._topic, self._queues, self._group, self._rate = topic, queues, group, rate
        self._control = Control(address)
        self._producer = connect(address, None)
        self._consumer = connect(address, None)
        self._next = self._control.max_offsets(topic, queues)
        self._stream = frames.SendStream(topic, queues, 128, first_number=1 << 31)
        self._cutter = answers.FrameCutter()
        self._counter = answers.AnswerCounter()
        self._sent_at: list[list[float]] = [[] for _ in range(queues)]
        self._first = list(self._next)

    def close(self) -> None:
        for closing in (self._control, self._producer, self._consumer):
            closing.close()

    def run(self, messages: int, skip: int) -> Latency:
        """Sends ``messages`` at the rate and reports all except the first ``skip``.

        Raises:
            BenchError: a send was refused, or messages did not arrive within 10 s of the last send.
        """
        for queue in range(self._queues):
            self._park(queue)
        delays_ms: list[float] = []
        start = time.perf_counter() + 0.01
        sent = 0
        last_end = start + messages / self._rate + 10.0
        while len(delays_ms) < messages:
            now = time.perf_counter()
            due = start + sent / self._rate
            if sent < messages and now >= due:
                self._sent_at[sent % self._queues].append(time.perf_counter())
                self._producer.sendall(self._stream.take(1))
                sent += 1
                continue
            if now > last_end:
                raise BenchError(f"{messages - len(delays_ms)} of {messages} messages did not arrive")
            # select, not epoll: its timeout is exact to the microsecond.
            wait_s = max(0.0, due - now) if sent < messages else 0.5
            readable, _, _ = select.select([self._producer, self._consumer], [], [], wait_s)
            if self._consumer in readable:
                self._receive(delays_ms)
            if self._producer in readable:
                self._counter.feed(self._producer.recv(RECEIVE_BYTES))
        if self._counter.succeeded != self._counter.frames:
            raise BenchError(f"a send was refused: {self._counter.first_refusal}")
        return _summary(delays_ms[skip:])

    def _park(self, queue: int) -> None:
        frame = frames.pull_frame(queue, self._topic, self._group, queue, self._next[queue], PULL_LIMIT, 15_000)
        self._consumer.sendall(frame)

    def _receive(self, delays_ms: list[float]) -> None:
        data = self._consumer.recv(RECEIVE_BYTES)
        arrived = time.perf_counter()
        for frame in self._cutter.feed(data):
            queue = answers.opaque_of(frame)
            code, next_offset, body_at = answers.pull_answer(frame)
            if code == 0:
                for offset in answers.stored_offsets(frame[body_at:]):
                    delays_ms.append((arrived - self._sent_at[queue][offset - self._first[queue]]) * 1000)
                self._next[queue] = next_offset
            elif code not in (19, 20):
                raise BenchError(f"a long poll was answered with code {code}")
            self._park(queue)


def _summary(delays_ms: list[float]) -> Latency:
    ordered = sorted(delays_ms)
    count = len(ordered)
    return Latency(ordered[count // 2], ordered[min(count - 1, count * 99 // 100)], ordered[-1], count)
