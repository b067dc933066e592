"""Timer load: the cost of a timer put, and how late timers come that are due close together."""

import time
from dataclasses import dataclass

from bench import answers, frames
from bench.control import BenchError, Control, connect, wait_until
from pymq.model.record import decode_records

TIMER_TOPIC = "rmq_sys_wheel_timer"
DUE_PER_SECOND = 100_000 / 60
HEAD_START_S_PER_MESSAGE = 1 / 3000  # the slowest broker puts so many a second
HEAD_START_S_MIN = 5.0
FRAMES_AT_ONCE = 64
RECEIVE_BYTES = 1 << 18
PULL_LIMIT = 32
COME_DEADLINE_S = 60.0  # behind the last one's time


@dataclass(frozen=True, slots=True)
class Lateness:
    """How long after its time each message was stored in its topic."""

    p50_ms: float
    p99_ms: float
    max_ms: float
    count: int


class DueLoad:
    """Sends timers that are due one after another at :data:`DUE_PER_SECOND`, and reads when each one came."""

    def __init__(self, address: str, topic: str, queues: int) -> None:
        self._topic = topic
        self._queues = queues
        self._control = Control(address)
        self._sock = connect(address, None)

    def close(self) -> None:
        self._control.close()
        self._sock.close()

    def run(self, messages: int) -> Lateness:
        """Raises BenchError when a send is refused, or a timer is lost, early or doubled."""
        head_start_s = max(HEAD_START_S_MIN, messages * HEAD_START_S_PER_MESSAGE)
        first_ms = time.time() * 1000 + head_start_s * 1000
        self._send(messages, first_ms)
        end_s = first_ms / 1000 + messages / DUE_PER_SECOND
        if time.time() > first_ms / 1000:
            raise BenchError(f"{messages} puts took more than {head_start_s:.0f} s")
        time.sleep(max(0.0, end_s - time.time()))
        wait_until(lambda: self._count() >= messages, f"{messages} timers to come", COME_DEADLINE_S)
        late = sorted(late_ms for queue in range(self._queues) for late_ms in self._late(queue))
        if len(late) != messages or late[0] < 0:
            raise BenchError(f"{len(late)} timers came, sent were {messages}; the earliest came {-late[0]} ms early")
        return Lateness(late[messages // 2], late[messages * 99 // 100], late[-1], messages)

    def _count(self) -> int:
        return sum(self._control.max_offsets(self._topic, self._queues))

    def _send(self, messages: int, first_ms: float) -> None:
        counter = answers.AnswerCounter()
        for number in range(0, messages, FRAMES_AT_ONCE):
            some = range(number, min(number + FRAMES_AT_ONCE, messages))
            self._sock.sendall(b"".join(self._frame(each, first_ms) for each in some))
            while counter.frames < some.stop:
                data = self._sock.recv(RECEIVE_BYTES)
                if not data:
                    raise BenchError("the broker closed a connection under load")
                counter.feed(data)
        if counter.succeeded != counter.frames:
            raise BenchError(f"a put was refused: {counter.first_refusal}")

    def _frame(self, number: int, first_ms: float) -> bytes:
        due_ms = int(first_ms + number * 1000 / DUE_PER_SECOND)
        ext = {
            "a": "pymq_bench", "b": self._topic, "c": "TBW102", "d": "4", "e": str(number % self._queues), "f": "0",
            "g": str(int(time.time() * 1000)), "h": "0", "j": "0", "k": "false", "m": "false", "n": "broker-a",
            "i": f"UNIQ_KEY\x01{frames.unique_key(f'{number:08X}')}\x02TIMER_DELIVER_MS\x01{due_ms}\x02",
        }  # fmt: skip
        return frames.encode_json(frames.SEND_MESSAGE_V2, number + 1, ext, b"x" * 128)

    def _late(self, queue: int) -> list[int]:
        late: list[int] = []
        end = self._control.max_offsets(self._topic, self._queues)[queue]
        cutter, offset = answers.FrameCutter(), 0
        while offset < end:
            self._sock.sendall(frames.pull_frame(1, self._topic, "bench_timers", queue, offset, PULL_LIMIT))
            cut: list[bytes] = []
            while not cut:
                cut = cutter.feed(self._sock.recv(RECEIVE_BYTES))
            code, offset, body_at = answers.pull_answer(cut[0])
            if code != 0:
                raise BenchError(f"a pull was answered with code {code}")
            for message in decode_records(cut[0][body_at:]):
                late.append(message.store_timestamp_ms - int(message.properties["TIMER_DELIVER_MS"]))
        return late
