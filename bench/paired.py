"""Compares the broker CPU time of two source trees, request by request: `python -m bench.paired OLD`.

A broker of each tree runs, and both get the same blocks of requests in turn. Other work on the machine changes the
figure of a block by more than a change of code does. So each block is compared with the other tree's block beside it,
and the median of these ratios counts, and the smallest figure of each tree, which no other work has disturbed.
"""

import argparse
import dataclasses
import shutil
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench import answers, frames, pops, process, transactions
from bench import inner_batches as inner
from bench.control import BenchError, Control, connect
from bench.standalone import PyMQBroker

QUEUES = 8
RECEIVE_BYTES = 1 << 20
PULL_LIMIT = 32
FILL_BATCHES = 4096  # of 32 messages: what the cases of pulls read, again and again
WARM_BLOCKS = 2
PARK_MS = 15_000


class Link:
    """A connection that counts the answers it gets, and remembers the last one."""

    def __init__(self, address: str) -> None:
        self._sock: socket.socket = connect(address)
        self._cutter = answers.FrameCutter()
        self._ready: list[bytes] = []

    def send(self, data: bytes | memoryview) -> None:
        self._sock.sendall(data)

    def receive(self, count: int) -> list[bytes]:
        """Returns the next ``count`` answers."""
        while len(self._ready) < count:
            data = self._sock.recv(RECEIVE_BYTES)
            if not data:
                raise BenchError("the broker closed the connection")
            self._ready += self._cutter.feed(data)
        taken, self._ready = self._ready[:count], self._ready[count:]
        return taken

    def close(self) -> None:
        self._sock.close()


class Target:
    """A running broker of one tree, with a topic."""

    def __init__(self, tree: Path, directory: Path) -> None:
        # -P: the present directory must not come before the tree.
        command = ["env", f"PYTHONPATH={tree.resolve()}", sys.executable, "-P", "-m", "pymq"]
        self.server = PyMQBroker(directory, command)
        self.server.start()
        self.topic, self.inner_topic = "paired", "paired_inner"
        with Control(self.server.broker) as control:
            control.create_topic(self.topic, QUEUES)
            control.create_topic(self.inner_topic, QUEUES, inner.ATTRIBUTES)
        self.numbers = 0
        self.links: list[Link] = []

    def link(self) -> Link:
        """Returns a new connection."""
        self.links.append(Link(self.server.broker))
        return self.links[-1]

    def disconnect(self) -> None:
        """Closes all connections."""
        while self.links:
            self.links.pop().close()

    def stream(
        self,
        header: int = frames.JSON_HEADER,
        batch: int = 1,
        queues: int = QUEUES,
        topic: str | None = None,
        properties: str = "",
    ) -> frames.SendStream:
        self.numbers += 1 << 28
        return frames.SendStream(topic or self.topic, queues, 128, header, batch, self.numbers, properties)

    def stop(self) -> None:
        self.disconnect()
        self.server.stop()


# Takes a target, returns a function that makes one step (a few requests), and the number of messages in a step.
Steps = Callable[[Target], tuple[Callable[[], None], int]]


def _sends(header: int, batch: int, in_flight: int, properties: str = "", *, is_inner: bool = False) -> Steps:
    """Steps of ``in_flight`` requests at once, whose answers are awaited."""

    def steps(target: Target) -> tuple[Callable[[], None], int]:
        topic = target.inner_topic if is_inner else target.topic
        stream, link = target.stream(header, batch, topic=topic, properties=properties), target.link()

        def step() -> None:
            _send_some(link, stream, in_flight)
            _check(link.receive(in_flight))

        return step, in_flight * batch

    return steps


def _send_some(link: Link, stream: frames.SendStream, count: int) -> None:
    while count:
        view = stream.take(count)
        link.send(view)
        count -= len(view) // stream.frame_bytes


def _transactions(in_flight: int) -> Steps:
    """Steps of ``in_flight`` half messages at once, behind the commits of the last step's."""

    def steps(target: Target) -> tuple[Callable[[], None], int]:
        properties = f"TRAN_MSG\x01true\x02PGROUP\x01{transactions.GROUP}\x02"
        stream, link = target.stream(properties=properties), target.link()
        commits = b""

        def step() -> None:
            nonlocal commits
            link.send(commits)
            _send_some(link, stream, in_flight)
            commits = b"".join(map(transactions.commit_frame, link.receive(in_flight)))

        return step, in_flight

    return steps


def _woken(target: Target) -> tuple[Callable[[], None], int]:
    """Steps of a parked pull that one send wakes."""
    stream, link, puller = target.stream(queues=1), target.link(), target.link()
    with Control(target.server.broker) as control:
        offset = control.max_offsets(target.topic, 1)[0]

    def step() -> None:
        nonlocal offset
        puller.send(frames.pull_frame(1, target.topic, "paired", 0, offset, PULL_LIMIT, PARK_MS))
        time.sleep(0.0002)  # the pull is parked
        link.send(stream.take(1))
        _check(link.receive(1))
        (answer,) = puller.receive(1)
        code, offset, _ = answers.pull_answer(answer)
        if code:
            raise BenchError(f"a pull was answered with code {code}")

    return step, 1


def _pulls(header: int) -> Steps:
    """Steps of eight pulls at once that read stored messages, one of each queue."""

    def steps(target: Target) -> tuple[Callable[[], None], int]:
        link = target.link()
        with Control(target.server.broker) as control:
            least = min(control.max_offsets(target.topic, QUEUES)) - PULL_LIMIT
        offset = 0

        def step() -> None:
            nonlocal offset
            pulls = [
                frames.pull_frame(queue, target.topic, "paired", queue, offset, PULL_LIMIT, header=header)
                for queue in range(QUEUES)
            ]
            link.send(b"".join(pulls))
            _check(link.receive(QUEUES))
            offset = (offset + PULL_LIMIT) % least

        return step, QUEUES * PULL_LIMIT

    return steps


def _inner_pulls(target: Target) -> tuple[Callable[[], None], int]:
    """Steps of a pull of 32 inner batches that are stored, from each queue in turn."""
    link = target.link()
    with Control(target.server.broker) as control:
        while (least := min(control.max_offsets(target.inner_topic, QUEUES))) < 2 * inner.PULL_COUNT_MAX:
            fill, _ = _sends(frames.JSON_HEADER, inner.BATCH, 16, is_inner=True)(target)
            for _ in range(QUEUES * inner.PULL_COUNT_MAX // 128):
                fill()
    number = 0

    def step() -> None:
        nonlocal number
        number += 1
        offset = number // QUEUES * inner.PULL_COUNT_MAX % (least - inner.PULL_COUNT_MAX) // inner.BATCH * inner.BATCH
        pull = frames.pull_frame(number, target.inner_topic, "paired", number % QUEUES, offset, inner.PULL_COUNT_MAX)
        link.send(pull)
        _check(link.receive(1))

    return step, inner.PULL_COUNT_MAX


def _pops(target: Target) -> tuple[Callable[[], None], int]:
    """Steps of a pop of stored messages, and their acknowledgements at once. A group ends before the messages do."""
    link, number = target.link(), 0

    def step() -> None:
        nonlocal number
        number += 1
        group = f"paired_{number * pops.POP_COUNT // (FILL_BATCHES * 32 - QUEUES * pops.POP_COUNT)}"
        link.send(pops.pop_frame(0, target.topic, group))
        acks = pops.ack_frames(1, target.topic, group, link.receive(1)[0])
        if len(acks) != pops.POP_COUNT:
            raise BenchError(f"a pop gave {len(acks)} messages")
        link.send(b"".join(acks))
        _check(link.receive(len(acks)))

    return step, pops.POP_COUNT


CASES: dict[str, Steps] = {
    "send": _sends(frames.JSON_HEADER, 1, 1),
    "send-32": _sends(frames.JSON_HEADER, 1, 32),
    "send-binary-32": _sends(frames.BINARY_HEADER, 1, 32),
    "timer-32": _sends(frames.JSON_HEADER, 1, 32, "TIMER_DELAY_SEC\x013600\x02"),
    "transaction-32": _transactions(32),
    "send-batch": _sends(frames.JSON_HEADER, 32, 16),
    "inner-batch": _sends(frames.JSON_HEADER, inner.BATCH, 16, is_inner=True),
    "inner-batch-binary": _sends(frames.BINARY_HEADER, inner.BATCH, 16, is_inner=True),
    "inner-backlog": _inner_pulls,
    "woken-pull": _woken,
    "backlog": _pulls(frames.JSON_HEADER),
    "backlog-binary": _pulls(frames.BINARY_HEADER),
    "pop-ack": _pops,
}


def _check(received: list[bytes]) -> None:
    for frame in received:
        # header_code expects the length field before the frame.
        code, remark = answers.header_code(b"\x00\x00\x00\x00" + frame, 0)
        if code:
            raise BenchError(f"a request was answered with code {code}: {remark}")


@dataclasses.dataclass(frozen=True, slots=True)
class Comparison:
    """The broker CPU time of a message in both trees, in us, block by block."""

    old_us: list[float]
    new_us: list[float]

    @property
    def median_ratio(self) -> float:
        """The median of the new tree's figure divided by the old one's, of blocks beside each other."""
        return statistics.median(new / old for old, new in zip(self.old_us, self.new_us, strict=True))

    @property
    def ratio_of_minima(self) -> float:
        return min(self.new_us) / min(self.old_us)


def compare(old: Target, new: Target, steps: Steps, block_count: int, block_steps: int) -> Comparison:
    """Measures ``block_count`` blocks of ``block_steps`` steps on each, in turn."""
    both = [(target, *steps(target)) for target in (old, new)]
    figures: tuple[list[float], list[float]] = ([], [])
    for number in range(-WARM_BLOCKS, block_count):
        places = (0, 1) if number % 2 else (1, 0)
        for place in places:
            target, step, message_count = both[place]
            before_ns = process.scheduled_ns(target.server.broker_pid)
            for _ in range(block_steps):
                step()
            took_ns = process.scheduled_ns(target.server.broker_pid) - before_ns
            if number >= 0:
                figures[place].append(took_ns / 1000 / (block_steps * message_count))
    old.disconnect()
    new.disconnect()
    return Comparison(*figures)


def main(arguments: list[str] | None = None) -> int:
    """Measures and prints a table; returns 0."""
    made = argparse.ArgumentParser(prog="python -m bench.paired", description=__doc__)
    made.add_argument("old", type=Path, help="the tree to compare with, such as a git worktree of an older commit")
    made.add_argument("names", nargs="*", metavar="NAME", help=f"cases (all): {', '.join(CASES)}")
    made.add_argument("--new", type=Path, default=Path(), help="the other tree (the present directory)")
    made.add_argument("--blocks", type=int, default=40, help="blocks of each tree (40)")
    made.add_argument("--steps", type=int, default=250, help="steps of a block (250)")
    options = made.parse_args(arguments)
    directory = Path(tempfile.mkdtemp(prefix="pymq-paired-"))
    targets: list[Target] = []
    table = Table("case", "old min", "new min", "ratio", "old median", "new median", "median of ratios", title="us CPU")
    try:
        for name, tree in (("old", options.old), ("new", options.new)):
            targets.append(Target(tree, directory / name))
        with process.pinned():
            for target in targets:
                fill, _ = _sends(frames.JSON_HEADER, 32, 16)(target)
                for _ in range(FILL_BATCHES // 16):
                    fill()
            for name in options.names or CASES:
                found = compare(targets[0], targets[1], CASES[name], options.blocks, options.steps)
                pairs = (found.old_us, found.new_us)
                row = [f"{min(each):.2f}" for each in pairs] + [f"{found.ratio_of_minima:.3f}"]
                row += [f"{statistics.median(each):.2f}" for each in pairs] + [f"{found.median_ratio:.3f}"]
                print(name, *row, file=sys.stderr, flush=True)
                table.add_row(name, *row)
    finally:
        for target in targets:
            target.stop()
        shutil.rmtree(directory, ignore_errors=True)
    Console(width=110).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
