"""``pymq standalone --shards``: a name server, and Raft groups whose brokers are processes that one can kill."""

from __future__ import annotations

import asyncio
import os
import random
import shlex
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pymq.cli.common.servers import make_namesrv, start_namesrv
from pymq.cli.console.beside import console_beside, console_member, console_text
from pymq.cli.output import Column, print_json_line, print_line, print_note, print_table
from pymq.cli.standalone.shard_files import HOST, ShardBroker, config_text, plan_brokers
from pymq.client.admin import Admin
from pymq.config import load_namesrv_config
from pymq.errors import PymqError, StoppedError, UsageError
from pymq.model.route import MASTER_ID
from pymq.net.runtime import ENDS_WITH_INPUT, StopSignals

READY_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 30.0
_POLL_S = 0.1
_LOG_LINES_SHOWN = 3

COLUMNS = [
    Column("shard"),
    Column("node"),
    Column("broker", "ADDRESS", folds=False),
    Column("pid", right=True),
    Column("role", folds=False),
]


class ShardProcesses:
    """The brokers as child processes. They are in this process's group, so Ctrl-C reaches them as well."""

    def __init__(self, brokers: list[ShardBroker]) -> None:
        self._brokers = brokers
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self._watches: list[asyncio.Task[None]] = []
        self._is_stopping = False

    async def start(self) -> None:
        for broker in self._brokers:
            with broker.log_path.open("ab") as output:
                self._processes[broker.name] = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-m", "pymq", "broker", "-c", str(broker.config_path)),
                    stdin=asyncio.subprocess.PIPE,  # held open: when this process is killed, they end as well
                    stdout=output,
                    stderr=output,
                    env={**os.environ, ENDS_WITH_INPUT: "1"},
                )

    def pid(self, broker: ShardBroker) -> int:
        return self._processes[broker.name].pid

    def check(self) -> None:
        """Raise UsageError when a broker has ended during the start."""
        for broker in self._brokers:
            if self._processes[broker.name].returncode is not None:
                lines = broker.log_path.read_text(encoding="utf-8", errors="replace").splitlines()
                raise UsageError(f"{broker.name} did not start: {' '.join(lines[-_LOG_LINES_SHOWN:])}")

    def watch(self) -> None:
        """Say from now on when a broker ends, and how it starts again."""
        self._watches = [asyncio.ensure_future(self._watch(broker)) for broker in self._brokers]

    async def _watch(self, broker: ShardBroker) -> None:
        code = await self._processes[broker.name].wait()
        if not self._is_stopping:
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            again = f"pymq broker -c {shlex.quote(str(broker.config_path))}"
            print_note(f"{broker.name} ended with {how}; start it again with: {again}")

    async def stop(self) -> None:
        """End all, in order where they do so within 30 s."""
        self._is_stopping = True
        running = [process for process in self._processes.values() if process.returncode is None]
        for process in running:
            with suppress(ProcessLookupError):
                process.terminate()
        try:
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await asyncio.gather(*(process.wait() for process in running))
        except TimeoutError:
            for process in running:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        for watch in self._watches:
            watch.cancel()


async def serve_shards(
    *,
    directory: Path,
    shards: int,
    replicas: int,
    namesrv_port: int,
    port: int,
    console_port: int | None,
    settings: Mapping[str, str],
    as_json: bool,
) -> None:
    """Run until a signal comes. Raises UsageError when a broker does not start."""
    brokers = plan_brokers(directory, shards, replicas, port, _is_free, random.SystemRandom())
    config = load_namesrv_config(None, {"listenPort": str(namesrv_port), "bindAddress": HOST}, env=os.environ)
    with StopSignals() as signals:
        namesrv = make_namesrv(config)
        await start_namesrv(namesrv)
        processes = ShardProcesses(brokers)
        try:
            for broker in brokers:
                text = config_text(broker, brokers, namesrv.address, settings)
                broker.config_path.write_text(text, encoding="utf-8")
            await processes.start()
            with suppress(StoppedError):
                ids = await signals.unless_stopped(_until_ready(namesrv.address, brokers, processes))
                async with console_beside(console_port, namesrv.address) as console:
                    _print_ready(namesrv.address, directory, brokers, processes, ids, console, as_json)
                    processes.watch()
                    await signals.wait()
        finally:
            await processes.stop()
            await namesrv.stop()


async def _until_ready(namesrv: str, brokers: list[ShardBroker], processes: ShardProcesses) -> dict[str, int]:
    """Wait until all brokers are registered and each shard has a leader; return address -> brokerId."""
    shards = {broker.shard for broker in brokers}
    async with Admin(namesrv) as admin:
        for _ in range(int(READY_TIMEOUT_S / _POLL_S)):
            processes.check()
            with suppress(PymqError):
                table = (await admin.cluster.info()).broker_addr_table
                ids = {address: number for data in table.values() for number, address in data.broker_addrs.items()}
                led = {name for name, data in table.items() if MASTER_ID in data.broker_addrs}
                if led >= shards and ids.keys() >= {broker.address for broker in brokers}:
                    return ids
            await asyncio.sleep(_POLL_S)
    log = brokers[0].log_path
    raise UsageError(f"not all brokers are ready after {READY_TIMEOUT_S:g} s: their logs are beside {log}")


def _print_ready(
    namesrv: str,
    directory: Path,
    brokers: list[ShardBroker],
    processes: ShardProcesses,
    ids: Mapping[str, int],
    console: str,
    as_json: bool,
) -> None:
    rows: list[dict[str, Any]] = [
        {
            "shard": broker.shard,
            "node": broker.node,
            "broker": broker.address,
            "pid": processes.pid(broker),
            "role": "leader" if ids[broker.address] == MASTER_ID else "follower",
            "config": str(broker.config_path),
            "log": str(broker.log_path),
        }
        for broker in brokers
    ]
    if as_json:
        ready = {"namesrv": namesrv, "store": str(directory), "pid": os.getpid(), "brokers": rows}
        print_json_line(ready | console_member(console))
        return
    print_line(f"ready: name server {namesrv}, data, settings and logs in {directory}{console_text(console)}")
    print_table(rows, COLUMNS)
    where = "" if namesrv == "127.0.0.1:9876" else f" --namesrv {namesrv}"
    print_line(f"Kill a leader (kill -9 PID), and look: pymq raft status{where}. Ctrl-C ends all.")
    sys.stdout.flush()


def _is_free(port: int) -> bool:
    with socket.socket() as attempt:
        attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            attempt.bind((HOST, port))
        except OSError:
            return False
    return True
