"""SQL load: a backlog of messages with three properties, pulled through an SQL92 expression that wants one in 100."""

import socket
import struct
import time

from pymq.bench import answers, frames
from pymq.bench.control import BenchError, Control, connect, wait_until
from pymq.bench.result import Rate

RECEIVE_BYTES = 1 << 20
ANSWER_DEADLINE_S = 30.0
PULL_LIMIT = 32
BODY_BYTES = 128
BATCH = 100  # amounts 0 to 99, one message each
EXPRESSION = "amount >= 98 AND color = 'red'"
WANTED_A_BATCH = 1

_FOUND, _NONE_MATCHED = 0, 20


def batch_of_amounts() -> bytes:
    """The body of one batch send."""
    entries = []
    for amount in range(BATCH):
        color = ("blue", "red")[amount % 2]
        properties = f"amount\x01{amount}\x02color\x01{color}\x02country\x01DE\x02".encode()
        size = frames.ENTRY_FIXED_BYTES + BODY_BYTES + len(properties)
        head = struct.pack(">IIIII", size, 0, 0, 0, BODY_BYTES)
        entries.append(head + b"x" * BODY_BYTES + struct.pack(">H", len(properties)) + properties)
    return b"".join(entries)


class SqlLoad:
    """Fills the queues of a topic, then pulls each from its start to its end, one pull in flight a queue."""

    def __init__(self, address: str, topic: str, queues: int, group: str) -> None:
        self._topic, self._queues, self._group = topic, queues, group
        self._control = Control(address)
        self._sock: socket.socket = connect(address, ANSWER_DEADLINE_S)
        self._offsets = [0] * queues
        self._ends = [0] * queues
        self._found = 0

    def close(self) -> None:
        self._control.close()
        self._sock.close()

    def fill(self, messages: int) -> None:
        """Sends at least so many messages, in whole batches, the same number to each queue.

        Raises:
            BenchError: a send was refused, or the messages don't appear in their queues.
        """
        body = batch_of_amounts()
        rounds = -(-messages // (BATCH * self._queues))
        for _ in range(rounds):
            for queue in range(self._queues):
                ext = frames.batch_fields(self._topic, queue, int(time.time() * 1000))
                self._control.expect(frames.SEND_BATCH_MESSAGE, ext, body)
        self._ends = [rounds * BATCH] * self._queues
        wait_until(lambda: self._control.max_offsets(self._topic, self._queues) == self._ends, "the messages sent")

    def run(self) -> Rate:
        """Pulls everything; counts the messages that the broker looked at.

        Raises:
            BenchError: an answer with another code, or another number of matching messages than were sent.
        """
        cutter = answers.FrameCutter()
        begin = time.perf_counter()
        for queue in range(self._queues):
            self._pull(queue)
        while self._offsets != self._ends:
            data = self._sock.recv(RECEIVE_BYTES)
            if not data:
                raise BenchError("the broker closed a pulling connection")
            for frame in cutter.feed(data):
                self._take(frame)
        seconds = time.perf_counter() - begin
        total = sum(self._ends)
        if self._found * BATCH != total * WANTED_A_BATCH:
            raise BenchError(f"{self._found} of {total} messages matched, {total // BATCH * WANTED_A_BATCH} should")
        return Rate(total, seconds)

    def _pull(self, queue: int) -> None:
        offset = self._offsets[queue]
        self._sock.sendall(
            frames.pull_frame(queue, self._topic, self._group, queue, offset, PULL_LIMIT, sql=EXPRESSION)
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
