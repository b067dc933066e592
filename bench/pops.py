"""Pop load: pops a backlog from all queues of a topic, and acknowledges each message by itself."""

from __future__ import annotations

import selectors
import socket
import time
from dataclasses import dataclass, field

from bench import answers, frames
from bench.control import BenchError, connect
from bench.result import Rate
from pymq.model.layout import RECORD_PLACE

POP_MESSAGE, ACK_MESSAGE = 200050, 200051
POLLING_FULL, POLLING_TIMEOUT, PULL_NOT_FOUND = 209, 210, 19
CONNECTIONS = 8
POP_COUNT = 32
INVISIBLE_MS = 300_000
POLL_MS = 1000  # how long a broker without messages may wait
DEADLINE_S = 60.0
RECEIVE_BYTES = 1 << 18


@dataclass(slots=True)
class _Consumer:
    sock: socket.socket
    is_popping: bool = False
    open_acks: int = 0
    cutter: answers.FrameCutter = field(default_factory=answers.FrameCutter)


class PopLoad:
    """Consumers of one group, each with one pop or its acknowledgements on the way."""

    def __init__(self, address: str, topic: str, group: str) -> None:
        self._topic = topic
        self._group = group
        self._consumers = [_Consumer(connect(address, None)) for _ in range(CONNECTIONS)]
        self._number = 0

    def close(self) -> None:
        for consumer in self._consumers:
            consumer.sock.close()

    def run(self, messages: int) -> Rate:
        """Pop and acknowledge at least so many messages.

        Raises:
            BenchError: a request was refused, or no message came for a minute.
        """
        acked, popped, start = 0, 0, time.perf_counter()
        last = start
        with selectors.DefaultSelector() as selector:
            for each in self._consumers:
                selector.register(each.sock, selectors.EVENT_READ, each)
                self._pop(each)
            while any(each.is_popping or each.open_acks for each in self._consumers):
                for key, _ in selector.select(DEADLINE_S):
                    consumer: _Consumer = key.data
                    data = consumer.sock.recv(RECEIVE_BYTES)
                    if not data:
                        raise BenchError("the broker closed a connection under load")
                    for frame in consumer.cutter.feed(data):
                        if consumer.open_acks:
                            _check(frame)
                            consumer.open_acks -= 1
                            acked += 1
                        else:
                            acks = self._acks(frame)
                            consumer.is_popping, consumer.open_acks = False, len(acks)
                            popped += len(acks)
                            consumer.sock.sendall(b"".join(acks))
                            last = time.perf_counter() if acks else last
                        if not consumer.open_acks and popped < messages:
                            self._pop(consumer)
                if time.perf_counter() - last > DEADLINE_S:
                    raise BenchError(f"{popped} of {messages} messages were popped, and no more came")
        return Rate(acked, time.perf_counter() - start)

    def _pop(self, consumer: _Consumer) -> None:
        self._number += 1
        consumer.is_popping = True
        consumer.sock.sendall(pop_frame(self._number, self._topic, self._group))

    def _acks(self, frame: bytes) -> list[bytes]:
        acks = ack_frames(self._number + 1, self._topic, self._group, frame)
        self._number += len(acks)
        return acks


def pop_frame(number: int, topic: str, group: str) -> bytes:
    """Return a pop of up to 32 messages from all queues."""
    ext = {
        "consumerGroup": group, "topic": topic, "queueId": "-1", "maxMsgNums": str(POP_COUNT),
        "invisibleTime": str(INVISIBLE_MS), "pollTime": str(POLL_MS), "bornTime": str(int(time.time() * 1000)),
        "initMode": "0", "expType": "TAG", "exp": "*", "order": "false",
    }  # fmt: skip
    return frames.encode_json(POP_MESSAGE, number, ext)


def ack_frames(number: int, topic: str, group: str, answer: bytes) -> list[bytes]:
    """Return an acknowledgement for each message of an answer to a pop, with numbers from ``number`` on.

    Raises:
        BenchError: the pop was refused.
    """
    header, body = answers.split_answer(answer)
    if header["code"] in (POLLING_FULL, POLLING_TIMEOUT, PULL_NOT_FOUND):
        return []
    if header["code"]:
        raise BenchError(f"a pop was refused: code {header['code']}, {header.get('remark', 'no remark')}")
    ext = header["extFields"]
    starts = {int(each.split(" ")[1]): each.split(" ")[2] for each in ext["startOffsetInfo"].split(";")}
    tail = f"{ext['popTime']} {ext['invisibleTime']} {ext['reviveQid']} 0 broker-a"
    acks: list[bytes] = []
    at = 0
    while at < len(body):
        size, _, queue_id, offset, _ = RECORD_PLACE.unpack_from(body, at)
        at += size
        fields = {
            "consumerGroup": group, "topic": topic, "queueId": str(queue_id), "offset": str(offset),
            "extraInfo": f"{starts[queue_id]} {tail} {queue_id} {offset}",
        }  # fmt: skip
        acks.append(frames.encode_json(ACK_MESSAGE, number + len(acks), fields))
    return acks


def _check(frame: bytes) -> None:
    """Raise BenchError for a refused acknowledgement."""
    if b'"code":0' not in frame:
        header, _ = answers.split_answer(frame)
        raise BenchError(f"an acknowledgement was refused: code {header['code']}, {header.get('remark')}")
