"""Transaction load: stores half messages and commits each as soon as its answer is there."""

import re
import selectors
import socket
import time
from dataclasses import dataclass, field

from bench import answers, frames
from bench.control import BenchError, Control, connect, wait_until
from bench.result import Rate

END_TRANSACTION = 37
ONE_WAY = 2
PREPARED, COMMIT = 4, 8
GROUP = "pymq_bench"
CONNECTIONS = 4
IN_FLIGHT = 32  # on each connection
ANSWER_DEADLINE_S = 30.0
RECEIVE_BYTES = 1 << 18

_QUEUE_OFFSET = re.compile(rb'"queueOffset"\s*:\s*"(\d+)"')
_MESSAGE_ID = re.compile(rb'"msgId"\s*:\s*"([0-9A-Fa-f]{32})"')


@dataclass(slots=True)
class _Producer:
    sock: socket.socket
    quota: int
    begun: int = 0
    answered: int = 0
    cutter: answers.FrameCutter = field(default_factory=answers.FrameCutter)


class TransactionLoad:
    """Runs transactions on a topic with ``queues`` queues, and counts those whose message came to its queue."""

    def __init__(self, address: str, topic: str, queues: int, body_bytes: int = 128) -> None:
        self._topic = topic
        self._queues = queues
        self._body = b"x" * body_bytes
        self._control = Control(address)
        self._producers = [_Producer(connect(address, None), 0) for _ in range(CONNECTIONS)]
        self._number = 0

    def close(self) -> None:
        self._control.close()
        for producer in self._producers:
            producer.sock.close()

    def run(self, transactions: int) -> Rate:
        """Run about so many transactions, and wait until all their messages are in their queues.

        Raises:
            BenchError: a half message was refused, or a message did not come.
        """
        before = sum(self._control.max_offsets(self._topic, self._queues))
        for producer in self._producers:
            producer.quota, producer.begun, producer.answered = -(-transactions // CONNECTIONS), 0, 0
        start = time.perf_counter()
        self._exchange()
        expected = before + sum(producer.quota for producer in self._producers)
        wait_until(
            lambda: sum(self._control.max_offsets(self._topic, self._queues)) >= expected,
            f"the queues of {self._topic} to hold {expected} messages",
        )
        return Rate(expected - before, time.perf_counter() - start)

    def _exchange(self) -> None:
        with selectors.DefaultSelector() as selector:
            for each in self._producers:
                selector.register(each.sock, selectors.EVENT_READ, each)
                self._begin(each, IN_FLIGHT, b"")
            waiting = len(self._producers)
            while waiting:
                ready = selector.select(ANSWER_DEADLINE_S)
                if not ready:
                    raise BenchError(f"no answer to a half message for {ANSWER_DEADLINE_S:.0f} s")
                for key, _ in ready:
                    producer: _Producer = key.data
                    data = producer.sock.recv(RECEIVE_BYTES)
                    if not data:
                        raise BenchError("the broker closed a connection under load")
                    ends = [commit_frame(frame) for frame in producer.cutter.feed(data)]
                    producer.answered += len(ends)
                    self._begin(producer, len(ends), b"".join(ends))
                    if producer.answered == producer.quota:
                        selector.unregister(producer.sock)
                        waiting -= 1

    def _begin(self, producer: _Producer, count: int, before: bytes) -> None:
        """Send ``before``, and behind it as many half messages as the quota allows, up to ``count``."""
        made = [before]
        for _ in range(min(count, producer.quota - producer.begun)):
            self._number += 1
            producer.begun += 1
            made.append(self._half(self._number))
        producer.sock.sendall(b"".join(made))

    def _half(self, number: int) -> bytes:
        key = frames.unique_key(f"{number:08X}")
        ext = {
            "a": GROUP, "b": self._topic, "c": "TBW102", "d": "4", "e": str(number % self._queues), "f": str(PREPARED),
            "g": str(int(time.time() * 1000)), "h": "0",
            "i": f"UNIQ_KEY\x01{key}\x02WAIT\x01true\x02TRAN_MSG\x01true\x02PGROUP\x01{GROUP}\x02", "j": "0",
            "k": "false", "m": "false", "n": "broker-a",
        }  # fmt: skip
        return frames.encode_json(frames.SEND_MESSAGE_V2, number, ext, self._body)


def commit_frame(answer: bytes) -> bytes:
    """Return the request that commits the half message of an answer. Raises BenchError for a refusal."""
    offset, message_id = _QUEUE_OFFSET.search(answer), _MESSAGE_ID.search(answer)
    if offset is None or message_id is None:
        header, _ = answers.split_answer(answer)
        raise BenchError(f"a half message was refused: code {header['code']}, {header.get('remark', 'no remark')}")
    place = int(message_id[1][16:], 16)
    ext = {
        "producerGroup": GROUP, "tranStateTableOffset": offset[1].decode(), "commitLogOffset": str(place),
        "commitOrRollback": str(COMMIT), "fromTransactionCheck": "false", "msgId": "", "transactionId": "",
        "bname": "broker-a",
    }  # fmt: skip
    return frames.encode_json(END_TRANSACTION, 1, ext, flag=ONE_WAY)
