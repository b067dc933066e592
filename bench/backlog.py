"""Backlog load: reads whole queues with raw pulls, two lanes per queue, every message exactly once."""

import selectors
import socket
import time
from dataclasses import dataclass

from bench import answers, frames
from bench.control import BenchError, Control, connect
from bench.result import Rate
from pymq.model.layout import RECORD_QUEUE_OFFSET

RECEIVE_BYTES = 1 << 20
ANSWER_DEADLINE_S = 30.0
PULL_LIMIT = 32
FULL_CHECK_EVERY = 64  # all offsets of every n-th pull answer are compared


@dataclass(slots=True)
class Lane:
    """A part of one queue that is read with one pull after the other."""

    queue: int
    next_offset: int
    end_offset: int


class BacklogLoad:
    """Pulls whole queues with two lanes per queue; each lane reads one half, every message exactly once."""

    def __init__(self, address: str, topic: str, queues: int, group: str, connections: int = 2) -> None:
        self._topic, self._group, self._queues = topic, group, queues
        self._control = Control(address)
        self._socks = [connect(address, None) for _ in range(connections)]
        self._open_lanes = 0
        self._answers_seen = 0

    def close(self) -> None:
        self._control.close()
        for sock in self._socks:
            sock.close()

    def run(self) -> Rate:
        """Reads the whole backlog once.

        Raises:
            BenchError: an answer skipped, repeated or refused messages.
        """
        lanes = self._lanes()
        total = sum(lane.end_offset - lane.next_offset for lane in lanes)
        self._open_lanes, self._answers_seen = len(lanes), 0
        start = time.perf_counter()
        with selectors.DefaultSelector() as selector:
            for sock in self._socks:
                selector.register(sock, selectors.EVENT_READ, (sock, answers.FrameCutter()))
            for number, lane in enumerate(lanes):
                self._socks[number % len(self._socks)].sendall(self._pull(number, lane))
            while self._open_lanes:
                ready = selector.select(ANSWER_DEADLINE_S)
                if not ready:
                    raise BenchError(f"no answer to a pull for {ANSWER_DEADLINE_S:.0f} s")
                for key, _ in ready:
                    sock, cutter = key.data
                    self._receive(sock, cutter, lanes)
        return Rate(total, time.perf_counter() - start)

    def _receive(self, sock: socket.socket, cutter: answers.FrameCutter, lanes: list[Lane]) -> None:
        """Takes answers and sends the next pull of their lanes."""
        data = sock.recv(RECEIVE_BYTES)
        if not data:
            raise BenchError("the broker closed a pulling connection")
        next_pulls = bytearray()
        for frame in cutter.feed(data):
            self._answers_seen += 1
            number = answers.opaque_of(frame)
            lane = lanes[number]
            self._advance(frame, lane, self._answers_seen % FULL_CHECK_EVERY == 0)
            if lane.next_offset < lane.end_offset:
                next_pulls += self._pull(number, lane)
            else:
                self._open_lanes -= 1
        if next_pulls:
            sock.sendall(next_pulls)

    def _lanes(self) -> list[Lane]:
        lanes = []
        for queue, high in enumerate(self._control.max_offsets(self._topic, self._queues)):
            lanes += [Lane(queue, 0, high // 2), Lane(queue, high // 2, high)]
        return [lane for lane in lanes if lane.next_offset < lane.end_offset]

    def _pull(self, number: int, lane: Lane) -> bytes:
        limit = min(PULL_LIMIT, lane.end_offset - lane.next_offset)
        return frames.pull_frame(number, self._topic, self._group, lane.queue, lane.next_offset, limit)

    def _advance(self, frame: bytes, lane: Lane, check_all: bool) -> None:
        code, next_offset, body_at = answers.pull_answer(frame)
        if code != 0:
            header, _ = answers.split_answer(frame)
            raise BenchError(f"a pull was answered with code {code}: {header.get('remark')}")
        first = RECORD_QUEUE_OFFSET.unpack_from(frame, body_at)[1]
        if first != lane.next_offset or next_offset <= first:
            raise BenchError(
                f"pulled offset {lane.next_offset}, the answer starts at {first} and ends at {next_offset}"
            )
        if check_all and answers.stored_offsets(frame[body_at:]) != list(range(first, next_offset)):
            raise BenchError(f"the body of a pull at {first} does not contain exactly {first} to {next_offset - 1}")
        lane.next_offset = next_offset
