"""Measures replication: sends with a slave attached, sends that wait for it, catching up, and lag."""

import select
import statistics
import time
from collections.abc import Callable

from bench import answers, frames, process
from bench.cases import QUEUES, Figure, Sizes
from bench.control import BenchError, Control, connect, wait_until
from bench.pairs import Pair, attach, log_end
from bench.sends import SendLoad, SendPlan

ASYNC_CASE = "replica-async"
CATCH_UP_CASE = "replica-catch-up"
LAG_CASE = "replica-lag"
SYNC_CASE = "replica-sync"
# A SYNC_MASTER answers once its slave has a message; both brokers count that as two copies.
SYNC_SETTINGS = {"brokerRole": "SYNC_MASTER", "inSyncReplicas": "2"}

CATCH_UP_BODY_BYTES = 1024
CATCH_UP_DEADLINE_S = 300.0
POLL_S = 0.01
LAG_RATE = 20_000
LAG_SLICE_S = 0.001
GET_MAX_OFFSET = 30
LAG_DEADLINE_S = 10.0


class PairBench:
    """A pair under measurement, with the state that its cases leave."""

    def __init__(self, pair: Pair, sizes: Sizes) -> None:
        self.server = pair
        self.sizes = sizes
        self._runs = 0

    def fresh_topic(self, prefix: str) -> str:
        self._runs += 1
        topic = f"bench_{prefix}_{self._runs}"
        with Control(self.server.broker) as control:
            control.create_topic(topic, QUEUES)
        return topic

    def numbers(self) -> int:
        """Returns a first message number that no load has used."""
        return self._runs << 30


def sync(bench: PairBench) -> list[Figure]:
    """Measures single sends to a SYNC_MASTER, which answers each once the slave has it."""
    rate, master_us, slave_us = _send(bench, bench.sizes.send_messages)
    return [
        Figure(f"{SYNC_CASE} rate", rate, "msg/s", 28_500, True),
        Figure(f"{SYNC_CASE} master CPU", master_us, "us/msg", 37.4),
        Figure(f"{SYNC_CASE} slave CPU", slave_us, "us/msg", 1.5),
    ]


def beside(bench: PairBench) -> list[Figure]:
    """Measures single sends with and without an attached slave, alternating, and compares the rates."""
    pair, messages = bench.server, bench.sizes.send_messages // 2
    attached, alone, slaves_us, masters_us, alone_us = [], [], [], [], []
    for _ in range(2):
        rate, master_us, slave_us = _send(bench, messages)
        attached.append(rate)
        masters_us.append(master_us)
        slaves_us.append(slave_us)
        pair.stop_slave()
        try:
            rate, master_us, _ = _send(bench, messages, has_slave=False)
            alone.append(rate)
            alone_us.append(master_us)
        finally:
            pair.start_slave()
        attach(pair)
    return [
        Figure(f"{ASYNC_CASE} rate", max(attached), "msg/s", None, True),
        Figure(f"{ASYNC_CASE} rate, of that without", max(attached) / max(alone) * 100, "%", 85.0, True),
        Figure(f"{ASYNC_CASE} master CPU", min(masters_us), "us/msg", None),
        Figure(f"{ASYNC_CASE} master CPU without", min(alone_us), "us/msg", None),
        Figure(f"{ASYNC_CASE} slave CPU", min(slaves_us), "us/msg", 1.5),
    ]


def _send(bench: PairBench, messages: int, *, has_slave: bool = True) -> tuple[float, float, float]:
    """Returns messages per second, and CPU us per message of the master and of the slave."""
    pair = bench.server
    plan = SendPlan(bench.fresh_topic("replica"), QUEUES)
    load = SendLoad(pair.broker, plan, bench.numbers())
    pids = [pair.broker_pid, pair.slave_pid] if has_slave else [pair.broker_pid]
    try:
        load.warm_up(min(bench.sizes.warm_messages, messages))
        process.settle_cpu()
        before = [process.cpu_seconds(pid) for pid in pids]
        rate = load.run(messages)
        process.settle_cpu(1.0)
        used = [process.cpu_seconds(pid) - start for pid, start in zip(pids, before, strict=True)]
    finally:
        load.close()
    in_us = [seconds / rate.messages * 1e6 for seconds in used]
    return rate.per_second, in_us[0], in_us[-1]


def catch_up(bench: PairBench) -> list[Figure]:
    """Measures how fast a slave catches up on messages of 1 KiB, from its first new byte to its last."""
    pair = bench.server
    begin_end = log_end(pair.slave)
    pair.stop_slave()
    try:
        plan = SendPlan(
            bench.fresh_topic("catch_up"), QUEUES, body_bytes=CATCH_UP_BODY_BYTES, batch=32, connections=2, in_flight=8
        )
        load = SendLoad(pair.broker, plan, bench.numbers())
        try:
            load.run(bench.sizes.backlog_messages // 2)
        finally:
            load.close()
    finally:
        goal = log_end(pair.broker)
        pair.start_slave()
    first: tuple[float, int] | None = None
    deadline = time.monotonic() + CATCH_UP_DEADLINE_S
    while True:
        now, end = time.monotonic(), _log_end_or_none(pair.slave)
        if end is not None:
            if first is None and end > begin_end:
                first = (now, end)
            if end >= goal:
                break
        if now > deadline:
            raise BenchError(f"the slave had {end} of {goal} bytes after {CATCH_UP_DEADLINE_S:.0f} s")
        time.sleep(POLL_S)
    start, start_end = first or (now - POLL_S, begin_end)
    if start_end >= goal:  # the slave had everything before the second poll
        start, start_end = now - POLL_S, begin_end
    return [Figure(f"{CATCH_UP_CASE} rate", (goal - start_end) / 1e6 / (now - start), "MB/s", 200.0, True)]


def _log_end_or_none(address: str) -> int | None:
    try:
        return log_end(address)
    except (OSError, BenchError):
        return None


def lag(bench: PairBench) -> list[Figure]:
    """Measures, at 20,000 sends per second, the time from before a send until the slave's queue has the message."""
    load = _LagLoad(bench)
    try:
        delays_ms = sorted(load.run(bench.sizes.latency_messages * 5))
    finally:
        load.close()
    return [
        Figure(f"{LAG_CASE} p50", statistics.median(delays_ms), "ms", None),
        Figure(f"{LAG_CASE} p99", delays_ms[len(delays_ms) * 99 // 100], "ms", 10.0),
    ]


class _LagLoad:
    """Sends at a steady rate and polls the end of the slave's first queue."""

    def __init__(self, bench: PairBench) -> None:
        self._topic = bench.fresh_topic("lag")
        self._stream = frames.SendStream(self._topic, QUEUES, 128, first_number=bench.numbers())
        self._counter = answers.AnswerCounter()
        self._producer = connect(bench.server.broker, None)
        self._cutter = answers.FrameCutter()
        self._slave = connect(bench.server.slave, None)
        with Control(bench.server.slave) as control:
            wait_until(lambda: _knows(control, self._topic), f"the slave to know {self._topic}", 120.0)

    def close(self) -> None:
        self._producer.close()
        self._slave.close()

    def run(self, messages: int) -> list[float]:
        """Returns the delays of the first queue's messages in ms, without the first tenth."""
        sent_at: list[float] = []  # of the first queue's messages
        delays_ms: list[float] = []
        sent = 0
        self._ask()
        start = time.perf_counter() + 0.01
        while sent < messages or len(delays_ms) < len(sent_at):
            now = time.perf_counter()
            due = min(int((now - start) * LAG_RATE), messages) - sent
            if due > 0:
                view = self._stream.take(due)  # may return fewer
                self._producer.sendall(view)
                before, sent = sent, sent + len(view) // self._stream.frame_bytes
                # The stream fills the queues round robin, beginning with the first.
                sent_at += [now] * (-(-sent // QUEUES) - -(-before // QUEUES))
            elif now > start + messages / LAG_RATE + LAG_DEADLINE_S:
                raise BenchError(f"{len(sent_at) - len(delays_ms)} messages did not reach the slave")
            readable, _, _ = select.select([self._producer, self._slave], [], [], LAG_SLICE_S)
            if self._producer in readable:
                self._counter.feed(self._producer.recv(1 << 16))
            if self._slave in readable:
                arrived = time.perf_counter()
                for end in self._answers():
                    delays_ms += [(arrived - at) * 1000 for at in sent_at[len(delays_ms) : end]]
                    self._ask()
        if self._counter.succeeded != self._counter.frames:
            raise BenchError(f"a send was refused: {self._counter.first_refusal}")
        return delays_ms[len(delays_ms) // 10 :]

    def _ask(self) -> None:
        self._slave.sendall(frames.encode_json(GET_MAX_OFFSET, 1, {"topic": self._topic, "queueId": "0"}, b""))

    def _answers(self) -> list[int]:
        found = []
        for frame in self._cutter.feed(self._slave.recv(1 << 16)):
            header, _ = answers.split_answer(frame)
            if header["code"] != 0:
                raise BenchError(f"the slave refused the request for a queue's end: {header.get('remark')}")
            found.append(int(header["extFields"]["offset"]))
        return found


def _knows(control: Control, topic: str) -> bool:
    try:
        control.max_offsets(topic, 1)
    except BenchError:
        return False
    return True


PairCase = Callable[[PairBench], list[Figure]]
REPLICA_CASES: dict[str, PairCase] = {ASYNC_CASE: beside, CATCH_UP_CASE: catch_up, LAG_CASE: lag}
REPLICA_SYNC_CASES: dict[str, PairCase] = {SYNC_CASE: sync}
