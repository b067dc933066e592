"""A console for hours: pages, tails, log-ins, topics that come and go, lost brokers. Nothing of it may grow."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

from pymq.client import Admin, Credentials, Message, Producer, PushConsumer
from pymq.errors import PymqError
from pymq.model.record import StoredMessage
from pymq.model.tables import SubscriptionGroupConfig, TopicConfig
from pymq.wire.bodies_auth import AclEntryInfo
from tests.console.hostile.site import STREAMS, addresses, query_of
from tests.console.secured import ADMINISTRATOR, USER, settings_with_users
from tests.ports import free_port_block
from tests.soak.growth import Growth, Held

CONTEXT: Final = "default"
HOST: Final = "127.0.0.1"
TOPIC, GROUP = "orders", "readers"
SEND_PAUSE_S: Final = 0.1
READ_BYTES: Final = 64 * 1024
CHURN_KEPT: Final = 5  # topics and groups that are made and deleted again
OF_PERSON: Final = 5  # tails
READY_TIMEOUT_S: Final = 60.0
PAGE_TIMEOUT_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class ConsolePlan:
    """``seconds`` of ``pages_per_s`` and ``tails`` open tails; a broker is lost about every ``lost_every_s``."""

    seconds: float
    tails: int = 20
    pages_per_s: float = 4.0
    lost_every_s: float = 60.0
    sample_s: float = 10.0
    seed: int = 0


@dataclass(slots=True)
class ConsoleResult:
    """What was done to the console, and what it held."""

    samples: list[Held]
    done: Counter[str] = field(default_factory=Counter)
    statuses: Counter[int] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """The figures, for people."""
        done = ", ".join(f"{count:,} {what}" for what, count in sorted(self.done.items()))
        statuses = ", ".join(f"{count:,} of {status}" for status, count in sorted(self.statuses.items()))
        return [f"done: {done}", f"answers: {statuses}", *Growth.of(self.samples).lines()]


class Program:
    """A process ``python -m pymq ...`` (or another module) that says in a line of JSON where it serves."""

    def __init__(self, arguments: Sequence[str], directory: Path, module: Sequence[str] = ("pymq",)) -> None:
        self._command = [sys.executable, "-m", *module, *arguments, "--json"]
        self._directory = directory
        self.log_path = directory / f"{arguments[0]}.log"
        self._process: subprocess.Popen[str] | None = None

    async def start(self) -> dict[str, str]:
        """Start it; return what its ready line says."""
        self._process = self._spawn()
        assert self._process.stdout is not None
        async with asyncio.timeout(READY_TIMEOUT_S):
            line = await asyncio.to_thread(self._process.stdout.readline)
        assert line, self.log_path.read_text()
        ready: dict[str, str] = json.loads(line)
        return ready

    def _spawn(self) -> subprocess.Popen[str]:
        env = {**os.environ, "HOME": str(self._directory)}
        with self.log_path.open("a") as log:
            return subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=log, text=True, env=env)

    def send(self, number: signal.Signals) -> None:
        """Send a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    async def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """End it by a signal; return its exit code."""
        process = self._process
        if process is None:
            return 0
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            process.send_signal(number)
        code = await asyncio.to_thread(process.wait, READY_TIMEOUT_S)
        assert process.stdout is not None
        process.stdout.close()
        return code


class ConsoleSoak:
    """One run in a directory of its own."""

    def __init__(self, directory: Path, plan: ConsolePlan) -> None:
        self._directory = directory
        self._plan = plan
        self._rng = random.Random(plan.seed)
        self._result = ConsoleResult([])
        self._counts_path = directory / "held.jsonl"
        self._cookies: dict[int, str] = {}  # by person
        self._namesrv = self._url = self._place = ""
        self._lossy: Program | None = None

    async def run(self) -> ConsoleResult:
        """Run it for the plan's time."""
        async with self._cluster() as brokers, self._console():
            await self._fill(brokers)
            for person in range(self._persons):
                await self._log_in(person)
            begun_s = time.monotonic()
            async with asyncio.TaskGroup() as group:
                work = [self._send(), self._consume(), self._churn(brokers), self._look(), self._lose()]
                work += [self._people(), *(self._tail(number % self._persons) for number in range(self._plan.tails))]
                running = [group.create_task(each) for each in work]
                await asyncio.sleep(self._plan.seconds)
                for each in running:
                    each.cancel()
        for line in self._counts_path.read_text().splitlines():
            found = json.loads(line)
            if found["at_s"] >= begun_s:
                self._result.samples.append(Held(**found | {"at_s": found["at_s"] - begun_s}))
        self._result.faults += Growth.of(self._result.samples).faults()
        return self._result

    @property
    def _persons(self) -> int:
        return max(1, self._plan.tails // OF_PERSON)

    # -- the cluster and its console ---------------------------------------------------------------------------------

    @asynccontextmanager
    async def _cluster(self) -> AsyncIterator[list[str]]:
        """Start a name server and two brokers; the second one is the one to be lost. Yield the brokers' addresses."""
        programs = [Program(["namesrv", "--port", "0"], self._directory)]
        try:
            self._namesrv = (await programs[0].start())["namesrv"]
            settings = settings_with_users(self._directory)
            flags = [each for key, value in settings.items() for each in ("--set", f"{key}={value}")]
            addresses = []
            for name in ("broker-a", "broker-b"):
                where = [
                    *("--name", name, "--store", str(self._directory / name)),
                    *("--port", str(free_port_block()), "--namesrv", self._namesrv),
                ]
                programs.append(Program(["broker", *where, *flags], self._directory))
                addresses.append((await programs[-1].start())["broker"])
            self._lossy = programs[-1]
            yield addresses
        finally:
            for each in reversed(programs):
                await each.end()

    @asynccontextmanager
    async def _console(self) -> AsyncIterator[None]:
        credentials = self._directory / "admin"
        arguments = ["console", "--port", "0", "--namesrv", self._namesrv, "--credentials", f"file:{credentials}"]
        module = ["tests.soak.counted_console", str(self._counts_path), str(self._plan.sample_s)]
        console = Program([*arguments, "--log-level", "error"], self._directory, module)
        self._url = (await console.start())["console"]
        self._place = self._url.partition("://")[2]
        try:
            yield
        finally:
            code = await console.end()
            if code:
                self._result.faults.append(f"the console ended with {code}")
            if log := console.log_path.read_text():
                self._result.faults.append(f"the console logged: {log[:2000]}")

    def _admin(self) -> Admin:
        return Admin(self._namesrv, credentials=Credentials(*ADMINISTRATOR))

    async def _fill(self, brokers: Sequence[str]) -> None:
        async with self._admin() as admin:
            for address in brokers:
                await admin.topics.put(address, TopicConfig(topic_name=TOPIC))
                await admin.groups.put(address, SubscriptionGroupConfig(group_name=GROUP))
                await admin.auth.create_user(address, *USER)
                actions = ["Get", "Sub", "Pub"]
                rules = [AclEntryInfo(resource=f"Topic:{TOPIC}", actions=actions, decision="Allow")]
                rules += [AclEntryInfo(resource=f"Group:{GROUP}", actions=actions, decision="Allow")]
                for rule in rules:
                    await admin.auth.put_acl(address, USER[0], [rule])

    # -- what changes in the cluster ---------------------------------------------------------------------------------

    async def _send(self) -> None:
        async with Producer("soak", namesrv=self._namesrv, credentials=Credentials(*ADMINISTRATOR)) as producer:
            while True:
                with suppress(PymqError):
                    await producer.send(Message(TOPIC, b'{"n": 1}' * 40, tags="soak", keys=[f"k{self._rng.random()}"]))
                    self._result.done["messages"] += 1
                await asyncio.sleep(SEND_PAUSE_S)

    async def _consume(self) -> None:
        """Join the group for a while, and leave it, so that it lags."""

        async def count(messages: list[StoredMessage]) -> None:
            self._result.done["messages consumed"] += len(messages)

        while True:
            credentials = Credentials(*ADMINISTRATOR)
            consumer = PushConsumer(GROUP, namesrv=self._namesrv, credentials=credentials, on_message=count)
            consumer.subscribe(TOPIC)
            with suppress(PymqError):
                await consumer.start()
            try:
                await asyncio.sleep(self._pause(60))
            finally:
                with suppress(PymqError):  # a broker that stands still
                    await consumer.stop()
            await asyncio.sleep(self._pause(60))

    async def _churn(self, brokers: Sequence[str]) -> None:
        """Make a topic and a group, and delete older ones: the charts of the last hour must not keep them."""
        number = 0
        async with self._admin() as admin:
            while True:
                with suppress(PymqError):
                    config = TopicConfig(topic_name=f"churn_{number}")
                    await admin.topics.put(brokers[0], config)
                    await admin.groups.put(brokers[0], SubscriptionGroupConfig(group_name=f"churners_{number}"))
                    self._result.done["topics made"] += 1
                    if number >= CHURN_KEPT:
                        targets = await admin.cluster.masters()
                        await admin.topics.delete(f"churn_{number - CHURN_KEPT}", targets[:1], everywhere=True)
                        await admin.groups.delete(brokers[0], f"churners_{number - CHURN_KEPT}")
                number += 1
                await asyncio.sleep(self._pause(20))

    async def _lose(self) -> None:
        """Kill the second broker, stop it, or let it stand still; each time it comes back."""
        lossy = self._lossy
        assert lossy is not None
        while True:
            await asyncio.sleep(self._pause(self._plan.lost_every_s))
            how = self._rng.choice((signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP))
            away_s = self._pause(self._plan.lost_every_s / 3)
            if how is signal.SIGSTOP:
                lossy.send(how)
                await asyncio.sleep(away_s)
                lossy.send(signal.SIGCONT)
            else:
                await lossy.end(how)
                await asyncio.sleep(away_s)
                await lossy.start()
            self._result.done["brokers lost"] += 1

    # -- what people do ----------------------------------------------------------------------------------------------

    async def _look(self) -> None:
        """Ask for pages, at a steady rate whether or not they come; some browsers leave before the answer."""
        paths = [(path, query_of(path)) for route, path in addresses() if route not in STREAMS]
        paths += [("topics", "q=churn"), ("messages", f"topic={TOPIC}"), ("messages", f"topic={TOPIC}&key=k0.5")]
        async with asyncio.TaskGroup() as group:
            while True:
                path, query = self._rng.choice(paths)
                if self._rng.random() < 0.3:
                    query = f"format=json&{query}"
                group.create_task(self._page(self._person(), path, query, leaves=self._rng.random() < 0.05))
                await asyncio.sleep(self._pause(1 / self._plan.pages_per_s))

    async def _page(self, person: int, path: str, query: str, *, leaves: bool) -> None:
        head = self._head("GET", f"{path}?{query}" if query else path, person)
        try:
            async with asyncio.timeout(PAGE_TIMEOUT_S):
                reader, writer = await asyncio.open_connection(HOST, self._port)
                try:
                    writer.write(head + b"\r\n")
                    if leaves:
                        await writer.drain()
                        self._result.done["pages left early"] += 1
                        return
                    answer = await reader.read()
                finally:
                    writer.close()
        except TimeoutError:
            self._result.faults.append(f"{path} had no answer in {PAGE_TIMEOUT_S:g} s")
            return
        self._result.done["pages"] += 1
        status = _status(answer)
        self._result.statuses[status] += 1
        if status in (0, 500):
            self._result.faults.append(f"{path}?{query} was answered by {answer[:200]!r}")

    async def _tail(self, person: int) -> None:
        """Follow the topic for a while, again and again; some searches live beside."""
        streams = [f"topics/{TOPIC}/tail/events", f"messages/events?topic={TOPIC}&key=none"]
        while True:
            path = streams[0] if self._rng.random() < 0.9 else streams[1]
            reader, writer = await asyncio.open_connection(HOST, self._port)
            try:
                writer.write(self._head("GET", path, person) + b"\r\n")
                async with asyncio.timeout(self._pause(240)):
                    while block := await reader.read(READ_BYTES):
                        self._result.done["events"] += block.count(b"event: ")
            except TimeoutError:
                pass
            finally:
                writer.close()
            self._result.done["streams"] += 1
            await asyncio.sleep(self._pause(2))

    async def _people(self) -> None:
        """Log out and in again, with a wrong secret now and then."""
        while True:
            await asyncio.sleep(self._pause(15))
            person = self._person()
            if self._rng.random() < 0.3:
                await self._log_in(person, "wrong")
                continue
            page = await self._asked(self._head("GET", "about", person))
            token = page.partition(b'name="token" value="')[2].partition(b'"')[0].decode()
            await self._post("logout", person, token=token)
            await self._log_in(person)

    async def _log_in(self, person: int, secret: str = "") -> None:
        name, own_secret = (ADMINISTRATOR, USER)[person % 2]
        answer = await self._post("login", None, name=name, secret=secret or own_secret)
        self._result.done["log-ins"] += 1
        if secret:
            return
        cookie = answer.partition(b"et-cookie: ")[2].partition(b";")[0].decode()
        if cookie:
            self._cookies[person] = cookie
        else:
            self._result.done["log-ins refused"] += 1  # a broker is away, or the address has to wait

    async def _post(self, path: str, person: int | None, **fields: str) -> bytes:
        body = urlencode(fields).encode()
        head = self._head("POST", path, person) + f"Origin: {self._url}\r\nContent-Length: {len(body)}\r\n".encode()
        return await self._asked(head + b"Content-Type: application/x-www-form-urlencoded\r\n", body)

    async def _asked(self, head: bytes, body: bytes = b"") -> bytes:
        source = f"127.2.{self._rng.randrange(1, 250)}.{self._rng.randrange(1, 250)}"  # none has to wait for another
        reader, writer = await asyncio.open_connection(HOST, self._port, local_addr=(source, 0))
        try:
            writer.write(head + b"\r\n" + body)
            return await reader.read()
        finally:
            writer.close()

    def _head(self, method: str, path: str, person: int | None) -> bytes:
        lines = [f"{method} /at/{CONTEXT}/{path} HTTP/1.1", f"Host: {self._place}", "Connection: close"]
        if person is not None and person in self._cookies:
            lines.append(f"Cookie: {self._cookies[person]}")
        return "\r\n".join(lines).encode() + b"\r\n"

    def _person(self) -> int:
        return self._rng.randrange(self._persons)

    @property
    def _port(self) -> int:
        return int(self._place.rpartition(":")[2])

    def _pause(self, mean_s: float) -> float:
        """Return a time between half and one and a half of the mean."""
        return mean_s * (0.5 + self._rng.random())


def _status(answer: bytes) -> int:
    """Return the status of an answer, 0 for what is none."""
    parts = answer.split(b" ", 2)
    return int(parts[1]) if len(parts) > 1 and parts[1].isdigit() else 0
