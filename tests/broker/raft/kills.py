"""Leaders fail under load: nothing acknowledged is lost, no place given twice; how long is no leader there?

``python -m tests.broker.raft.kills --kills 20 --fault kill``; the suite has a small slice. The other faults: ``pause``
stops the leader's process and lets it go on once another one leads; ``cut-off`` pauses the followers first, so that the
leader writes what nobody else has, then the leader, and lets the followers go on: a divergent tail. ``partition`` keeps
the leader's packets from the other nodes, and theirs from it, while clients reach them all; ``cable`` keeps it from
everybody. These two give each node a host of its own (:mod:`tests.broker.raft.hosts`). ``disk`` has each write and sync
of the leader fail, ``clock`` has its wall clock jump by up to a day, forwards or back, while it goes on leading
(:mod:`tests.broker.raft.machines`).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import signal
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, Protocol

from pymq.client import Admin, Message, MessageQueue, Producer, PullConsumer, SendStatus
from pymq.errors import PymqError
from pymq.model.tables import TopicConfig
from tests.broker.raft.hosts import Hosts, NoHostsError
from tests.broker.raft.machines import Machines, NoMachinesError
from tests.broker.raft.processes import RaftProcesses, node_ids
from tests.chaos.load import JAVA_PROGRAM, Ledger
from tests.interop.support.running import RunningJava, compiled_program

TOPIC = "RaftKills"
QUEUE_COUNT = 4
SENDERS = 8
SEND_TIMEOUT_S = 1.0
RETRY_S = 0.02
LOAD_S = (0.5, 1.5)  # between kills
CAUGHT_UP_S = 60.0
JAVA_PAUSE_MS = 1
JAVA_END_TIMEOUT_S = 30.0
CUT_OFF_S = 0.3  # the leader writes alone; it stops that by itself after an election time-out
JUMP_S_MAX = 24 * 3600
KILL, PAUSE, CUT_OFF, PARTITION, CABLE, DISK, CLOCK = FAULTS = (
    "kill",
    "pause",
    "cut-off",
    "partition",
    "cable",
    "disk",
    "clock",
)
ON_HOSTS = (PARTITION, CABLE)  # they need a host for each node
ON_MACHINES = (DISK, CLOCK)  # they need a machine for each node


class Place(NamedTuple):
    queue_id: int
    offset: int


class Load(Protocol):
    """A client that sends until it is ended."""

    times_s: list[float]  # when answers came (monotonic)

    @property
    def acknowledged(self) -> list[tuple[bytes, Place]]:
        """Each acknowledged body with its place."""
        ...

    @property
    def acknowledged_count(self) -> int: ...

    async def end(self) -> None: ...


class PymqLoad:
    """Senders that repeat each message until it is acknowledged, and remember where. Made in an event loop."""

    def __init__(self, namesrv: str) -> None:
        self._namesrv = namesrv
        self._numbers: Iterator[int] = iter(range(1 << 60))
        self.acknowledged: list[tuple[bytes, Place]] = []
        self.times_s: list[float] = []
        self._is_stopping = False
        self._sending = asyncio.create_task(self._run())

    @property
    def acknowledged_count(self) -> int:
        return len(self.acknowledged)

    async def end(self) -> None:
        self._is_stopping = True
        with contextlib.suppress(asyncio.CancelledError):
            await self._sending

    async def _run(self) -> None:
        async with Producer("raft-kills", namesrv=self._namesrv, retry_count=0) as producer:
            await asyncio.gather(*(self._send_all(producer) for _ in range(SENDERS)))

    async def _send_all(self, producer: Producer) -> None:
        while not self._is_stopping:
            body = b"%d" % next(self._numbers)
            while not await self._is_sent(producer, body) and not self._is_stopping:  # noqa: ASYNC110
                await asyncio.sleep(RETRY_S)

    async def _is_sent(self, producer: Producer, body: bytes) -> bool:
        try:
            result = await producer.send(Message(TOPIC, body), timeout_s=SEND_TIMEOUT_S)
        except PymqError:
            return False
        if result.status is not SendStatus.SEND_OK:
            return False
        self.acknowledged.append((body, Place(result.queue.queue_id, result.queue_offset)))
        self.times_s.append(time.monotonic())
        return True


class JavaLoad:
    """RocketMQ's Java client, which sends single messages and batches."""

    def __init__(self, namesrv: str, directory: Path) -> None:
        self.times_s: list[float] = []
        self._ledger = Ledger()
        arguments = [namesrv, TOPIC, str(SENDERS), str(JAVA_PAUSE_MS)]
        self._program = RunningJava(JAVA_PROGRAM, arguments, directory, self._understand)

    def _understand(self, line: str) -> None:
        before = self.acknowledged_count
        self._ledger.understand(line)
        if self.acknowledged_count > before:
            self.times_s.append(time.monotonic())

    @property
    def acknowledged(self) -> list[tuple[bytes, Place]]:
        return [(known.body, Place(*place)) for place, known in self._ledger.acknowledged.items()]

    @property
    def acknowledged_count(self) -> int:
        return len(self._ledger.acknowledged)

    async def end(self) -> None:
        code = await asyncio.to_thread(self._program.end, JAVA_END_TIMEOUT_S)
        if code or self._ledger.problems:
            raise RuntimeError(f"the Java client ended with {code}: {self._ledger.problems[:3]}")


async def until_acknowledged(load: Load, count: int) -> None:
    """Wait until ``count`` more messages are acknowledged."""
    goal = load.acknowledged_count + count
    async with asyncio.timeout(CAUGHT_UP_S):
        while load.acknowledged_count < goal:  # noqa: ASYNC110
            await asyncio.sleep(RETRY_S / 2)


class Outcome(NamedTuple):
    """``gaps_s``: for each fault, the longest pause of sends; ``led_s``: when the name server knew another leader.

    A client waits out its time-out first when a leader says nothing. ``lost`` and ``doubled`` should be empty.
    """

    acknowledged_count: int
    stored_count: int
    gaps_s: list[float]
    led_s: list[float]
    lost: list[bytes]
    doubled: list[Place]
    divergent_count: int
    are_logs_equal: bool


async def _break(group: RaftProcesses, leader: str, fault: str, rng: random.Random) -> None:
    """Have the leader fail. Its group can elect another one when this returns."""
    if fault == KILL:
        await asyncio.to_thread(group.kill, leader)
        return
    if fault in ON_MACHINES:
        assert group.machines is not None
        if fault == DISK:
            group.machines.fail_disk(leader, True)
        else:
            group.machines.set_clock(leader, rng.randint(-JUMP_S_MAX, JUMP_S_MAX))
        return
    if fault in ON_HOSTS:
        assert group.hosts is not None
        (group.hosts.separate if fault == PARTITION else group.hosts.unplug)(leader)
        return
    others = [node for node in group.ports if node != leader] if fault == CUT_OFF else []
    for node in others:
        group.send_signal(node, signal.SIGSTOP)
    if others:
        await asyncio.sleep(CUT_OFF_S)
    group.send_signal(leader, signal.SIGSTOP)
    for node in others:
        group.send_signal(node, signal.SIGCONT)


def _mend(group: RaftProcesses, leader: str, fault: str) -> None:
    if fault == KILL:
        group.start(leader)
    elif fault == CLOCK:
        pass  # it goes on with a time of its own, and jumps again
    elif fault == DISK:  # a log whose sync failed is opened again by a start
        assert group.machines is not None
        group.machines.fail_disk(leader, False)
        group.kill(leader)
        group.start(leader)
    elif fault in ON_HOSTS:
        assert group.hosts is not None
        (group.hosts.join if fault == PARTITION else group.hosts.plug)(leader)
    else:
        group.send_signal(leader, signal.SIGCONT)


async def run(
    group: RaftProcesses,
    faults: Sequence[str],
    rng: random.Random,
    open_load: Callable[[str], Load] = PymqLoad,
) -> Outcome:
    """Have the leader fail in each of these ways under load, then compare."""
    gaps_s: list[float] = []
    led_s: list[float] = []
    async with Admin(group.namesrv) as admin:
        leader = await group.until_registered(admin)
        config = TopicConfig(topic_name=TOPIC, read_queue_nums=QUEUE_COUNT, write_queue_nums=QUEUE_COUNT)
        await admin.topics.put(group.address(leader), config)
        load = open_load(group.namesrv)
        try:
            for fault in faults:
                await until_acknowledged(load, SENDERS)
                await asyncio.sleep(rng.uniform(*LOAD_S))
                leader = await group.leader(admin)
                await _break(group, leader, fault, rng)
                killed_s = time.monotonic()
                count = sum(at_s <= killed_s for at_s in load.times_s)
                if fault == CLOCK:
                    await asyncio.sleep(rng.uniform(*LOAD_S))  # in which the leader works at another time
                else:
                    await group.leader(admin, besides=leader)
                    led_s.append(time.monotonic() - killed_s)
                await until_acknowledged(load, SENDERS)
                gaps_s.append(max(late - early for early, late in pairwise([killed_s, *load.times_s[count:]])))
                _mend(group, leader, fault)
                await group.until_registered(admin)
        finally:
            await load.end()
        stored = await read_all(group.namesrv)
        leader = await group.until_registered(admin)
    for node in (*(node for node in group.ports if node != leader), leader):
        await asyncio.to_thread(group.stop, node)
    logs = [group.log_bytes(node) for node in group.ports]
    common = min(map(len, logs))
    return Outcome(
        acknowledged_count=load.acknowledged_count,
        stored_count=len(stored),
        gaps_s=gaps_s,
        led_s=led_s,
        lost=[body for body, place in load.acknowledged if stored.get(place) != body],
        doubled=_doubled(load.acknowledged),
        divergent_count=sum(len(list((group.root(node) / "divergent").glob("*.log"))) for node in group.ports),
        are_logs_equal=len({log[:common] for log in logs}) == 1,
    )


def _doubled(acknowledged: list[tuple[bytes, Place]]) -> list[Place]:
    seen: set[Place] = set()
    return [place for _, place in acknowledged if place in seen or seen.add(place)]


async def read_all(namesrv: str) -> dict[Place, bytes]:
    """Return every message of the topic by its place."""
    found: dict[Place, bytes] = {}
    async with PullConsumer("raft-kills-reader", namesrv=namesrv) as consumer, asyncio.timeout(CAUGHT_UP_S):
        for queue in await consumer.queues(TOPIC):
            await _read(consumer, queue, found)
    return found


async def _read(consumer: PullConsumer, queue: MessageQueue, found: dict[Place, bytes]) -> None:
    offset, end = 0, await consumer.max_offset(queue)
    while offset < end:
        result = await consumer.pull(queue, offset, 1000)
        for message in result.messages():
            found[Place(queue.queue_id, message.queue_offset)] = message.body
        offset = result.next_offset


def report(outcome: Outcome) -> str:
    gaps_ms = sorted(round(gap_s * 1000) for gap_s in outcome.gaps_s)
    led_ms = sorted(round(led_s * 1000) for led_s in outcome.led_s) or [0]
    return (
        f"{len(gaps_ms)} leaders failed: {outcome.acknowledged_count} messages acknowledged, {outcome.stored_count} "
        f"stored, {len(outcome.lost)} lost, {len(outcome.doubled)} doubled, {outcome.divergent_count} divergent tails, "
        f"logs {'equal' if outcome.are_logs_equal else 'DIFFERENT'}; ms without an acknowledged send: least "
        f"{gaps_ms[0]}, median {statistics.median(gaps_ms):.0f}, 9 of 10 below {gaps_ms[len(gaps_ms) * 9 // 10]}, most "
        f"{gaps_ms[-1]}; until another one led: median {statistics.median(led_ms):.0f}, most {led_ms[-1]}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--fault", choices=FAULTS, default=KILL)
    parser.add_argument("--client", choices=("pymq", "java"), default="pymq")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--flush", choices=("ASYNC_FLUSH", "SYNC_FLUSH"), default="ASYNC_FLUSH")
    parser.add_argument("--dir", type=Path, help="where to keep what the processes write; else it is removed")
    arguments = parser.parse_args()
    with contextlib.ExitStack() as stack:
        root = arguments.dir or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        settings = {"flushDiskType": arguments.flush}
        root.mkdir(parents=True, exist_ok=True)
        nodes = node_ids(arguments.nodes)
        try:
            hosts = stack.enter_context(Hosts(nodes)) if arguments.fault in ON_HOSTS else None
            machines = Machines(nodes, root) if arguments.fault in ON_MACHINES else None
        except (NoHostsError, NoMachinesError) as error:
            raise SystemExit(f"raft-kills --fault {arguments.fault}: {error}") from None
        group = stack.enter_context(
            RaftProcesses(root, count=arguments.nodes, settings=settings, hosts=hosts, machines=machines)
        )
        open_load: Callable[[str], Load] = PymqLoad
        if arguments.client == "java":
            compiled_program(JAVA_PROGRAM)
            open_load = partial(JavaLoad, directory=root / "java")
        outcome = asyncio.run(run(group, [arguments.fault] * arguments.kills, random.Random(arguments.seed), open_load))
    print(report(outcome))
    if outcome.lost or outcome.doubled or not outcome.are_logs_equal:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
