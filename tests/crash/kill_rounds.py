"""Rounds of load, ``kill -9``, start and check on one directory. Each round has a seed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from pymq.client import Admin
from pymq.model.tables import TopicConfig
from pymq.testing.standalone import StandaloneProcess
from tests.crash.kill_check import check, check_commits, commit_everywhere
from tests.crash.kill_load import QUEUE_COUNT, TOPIC, Load, PymqSending, Sending
from tests.ports import free_port_block

FLUSH_TYPES = ("ASYNC_FLUSH", "SYNC_FLUSH")
# Small segments and queue files, so that kills hit their ends. Offsets are saved as often as the settings allow.
SETTINGS = {
    "mappedFileSizeCommitLog": "262144",
    "mappedFileSizeConsumeQueue": "8000",
    "maxHashSlotNum": "500",
    "maxIndexNum": "2000",
    "flushConsumerOffsetInterval": "100",
}


class Round(NamedTuple):
    """The numbers of all rounds up to the end of this one."""

    number: int
    seed: int
    flush_type: str
    client: str
    kill_count: int
    sent_count: int
    acknowledged_count: int
    stored_count: int
    in_flight_count: int


class RoundFailed(Exception):
    """A round found something wrong. ``__cause__`` has the details."""

    def __init__(self, number: int, seed: int, flush_type: str, client: str, problem: str) -> None:
        super().__init__(f"round {number} (seed {seed}, {flush_type}, {client}): {problem}")


class KillRounds:
    """``open_java`` starts the Java client once the name server is known; ``report`` is called after a good round."""

    def __init__(
        self,
        directory: Path,
        seed: int,
        *,
        open_java: Callable[[str], Sending] | None = None,
        report: Callable[[Round], None] = lambda _: None,
    ) -> None:
        self._directory = directory
        self._seed = seed
        self._open_java = open_java
        self._report = report
        self._load = Load()
        self._clients: dict[str, Sending] = {"pymq": PymqSending()}
        self._namesrv_port, self._port = free_port_block(0, 0), free_port_block()
        self._servers = self._standalone(SETTINGS)

    async def run(self, round_count: int) -> Round:
        """Run all rounds and stop in order after the last. Returns the last round. Raises RoundFailed."""
        await asyncio.to_thread(self._servers.start)
        try:
            async with Admin(self._servers.namesrv) as admin:
                config = TopicConfig(topic_name=TOPIC, read_queue_nums=QUEUE_COUNT, write_queue_nums=QUEUE_COUNT)
                await admin.topics.put(self._servers.broker, config)
            if self._open_java is not None:
                self._clients["java"] = self._open_java(self._servers.namesrv)
            for number in range(1, round_count + 1):
                last = await self._round(number)
                self._report(last)
            assert await asyncio.to_thread(self._servers.stop) == 0, self._servers.stderr
            await self._start_again(FLUSH_TYPES[0])
            assert await check(self._servers, self._load, random.Random(self._seed)) == last.stored_count
            return last
        finally:
            for client in self._clients.values():
                await client.close()
            await asyncio.to_thread(self._servers.stop)

    async def _round(self, number: int) -> Round:
        """Run one round. Flush types and clients alternate; the seed decides the rest."""
        seed = self._seed + number
        rng = random.Random(seed)
        clients = sorted(self._clients)
        client = clients[number % len(clients)]
        flush_type = FLUSH_TYPES[number // len(clients) % len(FLUSH_TYPES)]
        load = self._load
        try:
            await asyncio.to_thread(self._servers.stop)
            await self._start_again(flush_type)
            ends = await commit_everywhere(self._servers, self._directory)
            await self._clients[client].until_killed(self._servers, load, rng)
            await self._start_again(flush_type)
            stored_count = await check(self._servers, load, rng)
            await check_commits(self._servers, ends)
        except Exception as problem:
            text = str(problem) or type(problem).__name__
            raise RoundFailed(number, seed, flush_type, client, text) from problem
        sent_count, acknowledged_count = len(load.sent), len(load.acknowledged)
        return Round(
            number,
            seed,
            flush_type,
            client,
            load.kill_count,
            sent_count,
            acknowledged_count,
            stored_count,
            load.in_flight,
        )

    def _standalone(self, settings: dict[str, str]) -> StandaloneProcess:
        return StandaloneProcess(self._directory, settings=settings, namesrv_port=self._namesrv_port, port=self._port)

    async def _start_again(self, flush_type: str) -> None:
        """Start a new process at the old addresses on the old directory."""
        broker = self._servers.broker
        self._servers = self._standalone({**SETTINGS, "flushDiskType": flush_type})
        await asyncio.to_thread(self._servers.start)
        assert self._servers.broker == broker
