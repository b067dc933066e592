"""A master with two slaves becomes a Raft group by rolling restarts under load, and a plain group again.

``python -m tests.broker.raft.rolling --rounds 10`` kills a node in each round at a random moment of the way; the suite
has a small slice. Each acknowledged message must be at its place afterwards, on the group and on the plain master.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

from pymq.client import Admin
from pymq.model.tables import TopicConfig
from tests.broker.raft.kills import QUEUE_COUNT, SENDERS, TOPIC, Place, PymqLoad, read_all, until_acknowledged
from tests.broker.raft.processes import NAME, RaftProcesses
from tests.ports import free_port_block

FOUNDED_S = 60.0
KILL_WITHIN_S = 6.0  # of the first restart with the group's settings
DOWN_S = (0.1, 1.5)


class RollingProcesses(RaftProcesses):
    """Three brokers whose settings change from those of a plain group to those of a Raft group, one by one."""

    def __init__(self, directory: Path, *, settings: dict[str, str] | None = None) -> None:
        super().__init__(directory, settings={"brokerRole": "SYNC_MASTER", "inSyncReplicas": "2", **(settings or {})})
        self.ports = {node: free_port_block() for node in self.ports}
        self.peers = ";".join(f"{node}-127.0.0.1:{port}" for node, port in self.ports.items())
        self.members: set[str] = set()  # those that are started with the group's settings

    def start(self, node: str) -> None:
        number = int(node[1:])
        settings = {**self._settings, "brokerRole": "SLAVE"} if number else dict(self._settings)
        del settings["enableDLegerCommitLog"]
        if node in self.members:
            group = {"enableDLegerCommitLog": "true", "dLegerGroup": NAME}
            settings |= group | {"dLegerPeers": self.peers, "dLegerSelfId": node}
        flags = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
        where = ["--name", NAME, "--namesrv", self.namesrv, "--port", str(self.ports[node]), "--id", str(number)]
        self._begin(node, "broker", *where, "--store", str(self.root(node)), *flags)

    async def until_founded(self, admin: Admin) -> str:
        """Wait until all three are nodes of one group, one of them its registered leader; return that one."""
        async with asyncio.timeout(FOUNDED_S):
            while not all((self.root(node) / "config" / "raftRun").exists() for node in self.ports):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            return await self.until_registered(admin)


class Outcome(NamedTuple):
    acknowledged_count: int
    lost: dict[bytes, Place]
    killed: str


async def roll(group: RollingProcesses, order: list[str], *, killed: str = "", rng: random.Random) -> Outcome:
    """Make the plain group a Raft group under load, in this order of restarts; ``killed`` dies on the way."""
    async with Admin(group.namesrv) as admin:
        await _put_topic(group, admin)
        async with _load(group) as load:
            await until_acknowledged(load, SENDERS)
            lock = asyncio.Lock()
            killing = asyncio.create_task(_kill(group, killed, lock, rng)) if killed else None
            for node in order:
                async with lock:
                    await asyncio.to_thread(group.stop, node)
                    group.members.add(node)
                    group.start(node)
                await until_acknowledged(load, SENDERS)
            if killing is not None:
                await killing
            await group.until_founded(admin)
            await until_acknowledged(load, 4 * SENDERS)
        return await _compare(group, load, killed)


async def back(group: RollingProcesses) -> Outcome:
    """Make the Raft group a plain one: send, hand over to n0, stop all, start all without the group's settings."""
    async with Admin(group.namesrv) as admin:
        async with _load(group) as load:
            await until_acknowledged(load, SENDERS)
        while await group.leader(admin) != "n0":
            leader = await group.leader(admin)
            await asyncio.to_thread(group.stop, leader)  # an orderly stop hands over
            group.start(leader)
            await group.until_registered(admin)
        for node in ("n1", "n2", "n0"):
            await asyncio.to_thread(group.stop, node)
        group.members.clear()
        for node in group.ports:
            group.start(node)
        await group.until_registered(admin)
        return await _compare(group, load, "")


async def _put_topic(group: RollingProcesses, admin: Admin) -> None:
    leader = await group.until_registered(admin)
    config = TopicConfig(topic_name=TOPIC, read_queue_nums=QUEUE_COUNT, write_queue_nums=QUEUE_COUNT)
    await admin.topics.put(f"127.0.0.1:{group.ports[leader]}", config)


@contextlib.asynccontextmanager
async def _load(group: RollingProcesses) -> AsyncIterator[PymqLoad]:
    load = PymqLoad(group.namesrv)
    try:
        yield load
    finally:
        await load.end()


async def _kill(group: RollingProcesses, node: str, lock: asyncio.Lock, rng: random.Random) -> None:
    await asyncio.sleep(rng.uniform(0, KILL_WITHIN_S))
    async with lock:  # a restart must not start it a second time
        await asyncio.to_thread(group.kill, node)
        await asyncio.sleep(rng.uniform(*DOWN_S))
        group.start(node)


async def _compare(group: RollingProcesses, load: PymqLoad, killed: str) -> Outcome:
    stored = await read_all(group.namesrv)
    lost = {body: place for body, place in load.acknowledged if stored.get(place) != body}
    return Outcome(len(load.acknowledged), lost, killed)


async def there_and_back(group: RollingProcesses, rng: random.Random) -> list[Outcome]:
    """Make the group a Raft group, a plain one, and a Raft group again, each time with a node that dies on the way."""
    outcomes = []
    for order in (["n1", "n2", "n0"], rng.sample(["n0", "n1", "n2"], 3)):
        outcomes.append(await roll(group, order, killed=rng.choice(order), rng=rng))
        outcomes.append(await back(group))
    return outcomes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--dir", type=Path, help="where to keep what the processes write; else it is removed")
    arguments = parser.parse_args()
    lost = 0
    for number in range(arguments.rounds):
        with contextlib.ExitStack() as stack:
            root = arguments.dir or Path(stack.enter_context(tempfile.TemporaryDirectory()))
            directory = root / str(number)
            directory.mkdir(parents=True)
            group = RollingProcesses(directory)
            stack.enter_context(group)
            outcomes = asyncio.run(there_and_back(group, random.Random(arguments.seed + number)))
        lost += sum(len(outcome.lost) for outcome in outcomes)
        counts = ", ".join(f"{each.acknowledged_count} ({each.killed or 'none'} killed)" for each in outcomes)
        print(f"round {number}: acknowledged {counts}; lost {sum(len(each.lost) for each in outcomes)}", flush=True)
    raise SystemExit(1 if lost else 0)


if __name__ == "__main__":
    main()
