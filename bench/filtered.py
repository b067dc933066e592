"""Pulls a backlog through a filter that matches a known, small number of its messages."""

import socket
import time
from dataclasses import dataclass

from bench import answers, frames
from bench.control import BenchError, Control, connect, wait_until
from bench.result import Rate

RECEIVE_BYTES = 1 << 20
ANSWER_DEADLINE_S = 30.0
PULL_LIMIT = 32

_FOUND, _NONE_MATCHED = 0, 20


@dataclass(frozen=True, slots=True)
class FilteredBatch:
    """One batch send of ``count`` messages, of which the filter matches ``matching``.

    The filter is either ``sql``, or ``filter_class`` in a filter server.
    """

    batch: bytes
    count: int
    matching: int
    sql: str | None = None
    filter_class: str | None = None


class FilteredLoad:
    """Fills the queues of a topic, then pulls each from its start to its end, with one pull in flight per queue."""

    def __init__(self, broker: str, topic: str, queues: int, group: str, batch: FilteredBatch) -> None:
        self._topic, self._queues, self._group = topic, queues, group
        self._batch = batch
        self._control = Control(broker)
        self._broker = broker
        self._sock: socket.socket | None = None
        self._offsets: list[int] = []
        self._ends = [0] * queues
        self._found = 0
        self.pull_count = 0

    def close(self) -> None:
        self._control.close()
        if self._sock is not None:
            self._sock.close()

    def fill(self, messages: int) -> None:
        """Sends at least ``messages`` messages in whole batches, the same number to each queue.

        Raises:
            BenchError: a send was refused, or the messages don't appear in their queues.
        """
        batch, count = self._batch.batch, self._batch.count
        rounds = -(-messages // (count * self._queues))
        for _ in range(rounds):
            for queue in range(self._queues):
                ext = frames.batch_fields(self._topic, queue, int(time.time() * 1000))
                self._control.expect(frames.SEND_BATCH_MESSAGE, ext, batch)
        self._ends = [rounds * count] * self._queues
        wait_until(lambda: self._control.max_offsets(self._topic, self._queues) == self._ends, "the messages sent")

    def run(self, address: str = "") -> Rate:
        """Pulls everything from the broker, or from the filter server at ``address``; counts all filtered messages.

        Raises:
            BenchError: an answer has another code, or the number of matching messages is wrong.
        """
        self._sock = connect(address or self._broker, ANSWER_DEADLINE_S)
        self._offsets, self._found, self.pull_count = [0] * self._queues, 0, 0
        cutter = answers.FrameCutter()
        begin = time.perf_counter()
        for queue in range(self._queues):
            self._pull(queue)
        while self._offsets != self._ends:
            data = self._sock.recv(RECEIVE_BYTES)
            if not data:
                raise BenchError("the server closed a pulling connection")
            for frame in cutter.feed(data):
                self._take(frame)
        seconds = time.perf_counter() - begin
        self._sock.close()
        total = sum(self._ends)
        expected = total // self._batch.count * self._batch.matching
        if self._found != expected:
            raise BenchError(f"{self._found} of {total} messages matched, expected were {expected}")
        return Rate(total, seconds)

    def first_pull(self) -> float:
        """Sends one pull and returns the ms until its answer, which include compiling the filter. Raises BenchError."""
        with connect(self._broker, ANSWER_DEADLINE_S) as self._sock:
            self._offsets = [0] * self._queues
            cutter = answers.FrameCutter()
            begin = time.perf_counter()
            self._pull(0)
            taken: list[bytes] = []
            while not taken:
                taken = list(cutter.feed(self._sock.recv(RECEIVE_BYTES)))
            return (time.perf_counter() - begin) * 1000

    def _pull(self, queue: int) -> None:
        assert self._sock is not None
        self.pull_count += 1
        self._sock.sendall(
            frames.pull_frame(
                queue,
                self._topic,
                self._group,
                queue,
                self._offsets[queue],
                PULL_LIMIT,
                sql=self._batch.sql,
                filter_class=self._batch.filter_class,
            )
        )

    def _take(self, frame: bytes) -> None:
        queue = answers.opaque_of(frame)
        code, next_offset, body_at = answers.pull_answer(frame)
        if code not in (_FOUND, _NONE_MATCHED) or next_offset <= self._offsets[queue]:
            header, _ = answers.split_answer(frame)
            raise BenchError(f"a pull was answered with code {code}: {header.get('remark')}")
        self._found += len(answers.stored_offsets(frame[body_at:]))
        self._offsets[queue] = next_offset
        if next_offset < self._ends[queue]:
            self._pull(queue)
