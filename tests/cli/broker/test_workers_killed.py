"""Workers and their machine's process are killed under load: what was confirmed is there, and the others go on."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from pymq.cli import main as cli
from pymq.client import Message, Producer, PullConsumer
from pymq.errors import EXIT_OK, PymqError
from tests.cli.broker.machines import Process, machine_arguments, name_server, running

pytestmark = pytest.mark.slow

WORKERS, SENDERS, LOAD_S, KILL_EVERY_S = 3, 8, 12.0, 1.0
TOPIC, NAME = "Killed", f"k{os.getpid()}"


class Load:
    """Senders that number their messages, and what became of each."""

    def __init__(self, namesrv: str) -> None:
        self._namesrv = namesrv
        self._next = 0
        self.confirmed: set[int] = set()
        self.brokers: Counter[str] = Counter()
        self.failed = 0
        self.longest_s = 0.0
        self.is_over = False

    async def run(self) -> None:
        async with Producer("killers", namesrv=self._namesrv) as producer:
            await asyncio.gather(*(self._send(producer) for _ in range(SENDERS)))

    async def _send(self, producer: Producer) -> None:
        while not self.is_over:
            number, self._next = self._next, self._next + 1
            begun_s = time.monotonic()
            try:
                result = await producer.send(Message(TOPIC, b"%d" % number))
            except PymqError:
                self.failed += 1
                await asyncio.sleep(0.05)
                continue
            self.longest_s = max(self.longest_s, time.monotonic() - begun_s)
            self.confirmed.add(number)
            self.brokers[result.queue.broker_name] += 1


async def found_in(namesrv: str) -> Counter[int]:
    """Return how often each number is stored."""
    found: Counter[int] = Counter()
    async with PullConsumer("finders", namesrv=namesrv) as consumer:
        for queue in await consumer.queues(TOPIC):
            offset, end = await consumer.min_offset(queue), await consumer.max_offset(queue)
            while offset < end:
                result = await consumer.pull(queue, offset)
                found.update(int(message.body) for message in result.messages())
                offset = result.next_offset
    return found


def victims(machine: Process) -> list[int]:
    """Return the workers, by the names that they show, and the process that forks them."""
    found = [int(text) for text in Path(f"/proc/{machine.pid}/task/{machine.pid}/children").read_text().split()]
    for path in Path("/proc").glob("[0-9]*/comm"):
        with suppress(OSError):
            if path.read_text().startswith(f"{NAME}-"):
                found.append(int(path.parent.name))
    return found


async def killed_workers(machine: Process, load: Load, rng: random.Random) -> int:
    """Kill a worker, or what forks them, every second while the load runs; return how many died."""
    sending, deaths = asyncio.ensure_future(load.run()), 0
    end_s = time.monotonic() + LOAD_S
    while time.monotonic() < end_s:
        await asyncio.sleep(KILL_EVERY_S)
        pids = victims(machine)
        if pids:
            os.kill(rng.choice(pids), signal.SIGKILL)
            deaths += 1
    load.is_over = True
    await sending
    return deaths


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="only Linux lists a process's children")
def test_nothing_that_was_confirmed_is_lost_when_workers_and_their_machine_are_killed(
    tmp_path: Path,
) -> None:
    rng = random.Random(7)
    with name_server() as namesrv:
        arguments = machine_arguments(tmp_path, namesrv, WORKERS, "--name", NAME)
        load = Load(namesrv)
        with running(*arguments) as machine:
            assert cli.run(["topic", "create", TOPIC, "--namesrv", namesrv]) == EXIT_OK
            deaths = asyncio.run(killed_workers(machine, load, rng))
            machine.kill()
        assert len(load.brokers) == WORKERS and load.longest_s < LOAD_S
        with running(*arguments) as again:
            assert all(row["state"] == "up" for row in again.ready["workers"])
            found = asyncio.run(found_in(namesrv))
    lost = load.confirmed - found.keys()
    doubled = sum(count - 1 for count in found.values())
    print(
        f"{deaths} workers or what forks them, and their machine killed: {len(load.confirmed)} confirmed, "
        f"{len(lost)} lost, {doubled} doubled, {load.failed} sends failed, the longest took {load.longest_s:.2f} s; "
        f"{dict(load.brokers)}"
    )
    assert not lost
    assert doubled <= deaths * SENDERS, "only a send whose answer was lost is sent again"
