"""Three real brokers of one name and a name server. All connections but the name server's pass a `Link`."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any, Final

from pymq.client.admin import Admin
from pymq.errors import PymqError
from pymq.wire.bodies_replication import ReplicationStatus
from tests.chaos.proxy import Link
from tests.interop.support.process import Server
from tests.interop.support.replicas import BROKER_NAME, REPOSITORY, NameServer, PymqMember

MEMBER_COUNT = 3
REAL_HOST, PUBLIC_HOST = "127.0.0.1", "127.0.0.2"
STATUS_TIMEOUT_S = 3.0
STOP_TIMEOUT_S = 30.0
HEAL_TIMEOUT_S = 60.0
POLL_S = 0.1
FOLLOWING = "following"
# Small files, so that faults meet their ends; silence is noticed in seconds; the disk's fill deletes nothing.
SETTINGS: Final = {
    "brokerIP1": PUBLIC_HOST,
    "bindAddress": REAL_HOST,
    "slaveTimeout": "1500",
    "haSendHeartbeatInterval": "500",
    "haHousekeepingInterval": "3000",
    "registerNameServerPeriod": "10000",
    "flushConsumerOffsetInterval": "100",
    "mappedFileSizeCommitLog": "1048576",
    "mappedFileSizeConsumeQueue": "8000",
    "maxHashSlotNum": "5000",
    "maxIndexNum": "20000",
    "diskMaxUsedSpaceRatio": "0",
    "diskSpaceCleanForciblyRatio": "0",
    "diskSpaceWarningLevelRatio": "0",
}


class Broker(PymqMember):
    """One broker's process; the flags it is started with never change. `public_address` is where others reach it."""

    def __init__(self, directory: Path, namesrv: NameServer, broker_id: int, settings: dict[str, str]) -> None:
        role = {"brokerRole": "SYNC_MASTER"} if broker_id == 0 else {}
        super().__init__(directory, namesrv, broker_id, {**SETTINGS, **role, **settings})
        self.public_address = f"{PUBLIC_HOST}:{self.port}"
        self.remoting = Link(f"broker {broker_id}", (PUBLIC_HOST, self.port), (REAL_HOST, self.port))
        self.ha = Link(f"broker {broker_id}, HA", (PUBLIC_HOST, self.port + 1), (REAL_HOST, self.port + 1))

    def launch(self) -> None:
        """Start the process without waiting for it."""
        self._lives += 1
        self._server = self._spawn(f"broker-{self._lives}")

    @property
    def server(self) -> Server:
        """The process of the latest start."""
        assert self._server is not None, "not started"
        return self._server

    def signal(self, number: signal.Signals) -> None:
        """Send SIGSTOP or SIGCONT."""
        self.server.assert_running()
        os.kill(self.server.process.pid, number)

    def committed(self, topic: str, group: str) -> dict[int, int]:
        """Return the group's offsets by queue, from the broker's file."""
        path = self.store / "config" / "consumerOffset.json"
        if not path.exists():
            return {}
        table = json.loads(path.read_text())["offsetTable"].get(f"{topic}@{group}", {})
        return {int(queue): offset for queue, offset in table.items()}


class Group:
    """The brokers of one name, in any roles."""

    def __init__(self, directory: Path, settings: dict[str, str]) -> None:
        self.namesrv = NameServer(directory / "namesrv")
        self.brokers = [Broker(directory / f"broker-{n}", self.namesrv, n, settings) for n in range(MEMBER_COUNT)]
        self.admin = Admin(self.namesrv.address, timeout_s=STATUS_TIMEOUT_S)

    @property
    def links(self) -> list[Link]:
        return [link for broker in self.brokers for link in (broker.remoting, broker.ha)]

    async def start(self) -> None:
        """Start links and processes, and wait until the slaves follow."""
        for link in self.links:
            await link.start()
        for broker in self.brokers:
            broker.launch()
        await self.healed()

    async def stop(self) -> None:
        """Stop everything, in any state."""
        await self.admin.close()
        for broker in self.brokers:
            broker.end()
        for link in self.links:
            await link.stop()
        self.namesrv.stop()

    async def restart(self, broker: Broker) -> None:
        """Stop a broker in good order and start it. Raises AssertionError when the stop was not orderly."""
        code = await asyncio.to_thread(broker.server.stop, STOP_TIMEOUT_S)
        assert code == 0, f"{broker.public_address} ended with {code}:\n{broker.log_tail()}"
        broker.launch()

    async def statuses(self) -> dict[Broker, ReplicationStatus | str]:
        """Ask each broker, not through its link. Return its status, or why it did not answer."""

        async def ask(broker: Broker) -> ReplicationStatus | str:
            try:
                return await self.admin.replication.status(broker.broker)
            except PymqError as error:
                return str(error)

        answers = await asyncio.gather(*[ask(broker) for broker in self.brokers])
        return dict(zip(self.brokers, answers, strict=True))

    async def kill_name_server(self, down_s: float) -> None:
        """Kill and restart the name server, and wait until it knows all brokers."""
        await asyncio.to_thread(self.namesrv.kill)
        await asyncio.sleep(down_s)
        await asyncio.to_thread(self.namesrv.start)
        known: set[Any] = set()
        deadline = asyncio.get_running_loop().time() + HEAL_TIMEOUT_S
        while known != {broker.public_address for broker in self.brokers}:
            assert asyncio.get_running_loop().time() < deadline, (
                f"the name server knows {known} after {HEAL_TIMEOUT_S:g} s"
            )
            await asyncio.sleep(POLL_S)
            known = set((await asyncio.to_thread(self.namesrv.members)).values())

    async def healed(self, without: Broker | None = None) -> Broker:
        """Wait until all follow one master, and return that master. Raises AssertionError after a minute."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + HEAL_TIMEOUT_S
        while True:
            found = await self.statuses()
            if without is not None:
                del found[without]
            master = _healthy_master(found)
            if master is not None:
                return master
            if loop.time() > deadline:
                raise AssertionError(f"the group has not healed in {HEAL_TIMEOUT_S:g} s: {self._text(found)}")
            await asyncio.sleep(POLL_S)

    async def same_end(self) -> int:
        """Wait, without load, until all logs end at the same offset, and return it."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + HEAL_TIMEOUT_S
        while True:
            found = await self.statuses()
            ends = {status.log_end for status in found.values() if isinstance(status, ReplicationStatus)}
            if _healthy_master(found) is not None and len(ends) == 1:
                return ends.pop()
            if loop.time() > deadline:
                raise AssertionError(f"the logs differ after {HEAL_TIMEOUT_S:g} s: {self._text(found)}")
            await asyncio.sleep(POLL_S)

    async def promote(self, *, force: bool) -> str:
        """Run `pymq broker promote`, as an operator does. Return why it failed, empty if it did not."""
        flags = ["--yes", "--json", "--namesrv", self.namesrv.address, *(["--force"] if force else [])]
        process = await asyncio.create_subprocess_exec(
            *[sys.executable, "-m", "pymq", "broker", "promote", BROKER_NAME, *flags],
            cwd=REPOSITORY,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        stdout, stderr = await process.communicate()
        return "" if process.returncode == 0 else f"exit code {process.returncode}: {(stderr or stdout).decode()}"

    def _text(self, found: dict[Broker, ReplicationStatus | str]) -> str:
        lines = []
        for broker, status in found.items():
            lines.append(f"\n== {broker.public_address}: {status}\n{broker.log_tail()}")
        return "".join(lines)


def _healthy_master(found: dict[Broker, ReplicationStatus | str]) -> Broker | None:
    """Return the only master, if it has the others in sync and they say that they follow it."""
    masters = [
        broker for broker, status in found.items() if isinstance(status, ReplicationStatus) and not status.ha_client
    ]
    if len(masters) != 1:
        return None
    (master,) = masters
    theirs = found[master]
    if not isinstance(theirs, ReplicationStatus) or theirs.in_sync_slaves != len(found) - 1:
        return None
    for broker, status in found.items():
        if broker is not master and not _follows(status, master):
            return None
    return master


def _follows(status: ReplicationStatus | str, master: Broker) -> bool:
    if isinstance(status, str) or status.ha_client is None:
        return False
    return status.ha_client.state == FOLLOWING and status.ha_client.master_address == master.public_address
