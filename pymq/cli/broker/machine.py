"""``pymq broker --workers``: the process that runs the brokers of a machine, each in a process of its own."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from pymq.cli.common.serving_metrics import MetricsPlace, metrics_member, metrics_place, metrics_text
from pymq.cli.output import print_json_line, print_note
from pymq.config.base import ORIGIN_DEFAULT
from pymq.config.workers import AUTO, WORKERS_KEY, worker_count
from pymq.errors import StoppedError, UsageError

if TYPE_CHECKING:
    from pymq.config import BrokerConfig
    from pymq.net.fork_server import BegunServer
    from pymq.net.runtime import StopSignals
    from pymq.store.disk.workers_file import Layout
    from pymq.workers.supervisor import Supervised, Supervisor


FORK_SERVER = "pymq.cli.broker.fork_server"


class CommandLine(NamedTuple):
    """What a worker's command line has of its machine's."""

    config_file: str | None
    given: Mapping[str, str]
    log_level: str
    grpc_port: int | None = None
    grpc_signature_age: int | None = None


def is_machine(config: BrokerConfig) -> bool:
    """Return whether the settings ask for workers. Raises StoreError when the directory does and they don't."""
    from pymq.store.disk.fs import RealFiles
    from pymq.store.disk.workers_file import read_layout, refuse_workers

    if config.is_worker:
        return False
    files, root = RealFiles(), config.store_path_root_dir
    if config.origin(WORKERS_KEY) == ORIGIN_DEFAULT:
        refuse_workers(files, root)
        return False
    layout = read_layout(files, root)
    return layout is not None or _count(config, layout) > 1


def _count(config: BrokerConfig, before: Layout | None) -> int:
    """Return the number of workers that stay. ``auto`` gives none up: a machine may come back with fewer cores."""
    count = worker_count(config.workers, len(_cores()))
    return max(count, len(before.active)) if before is not None and config.workers == AUTO else count


def _cores() -> list[int]:
    """Return the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def begin_fork_server() -> BegunServer | None:
    """Begin to load what workers need in a process beside this one, which has no event loop yet; None: not here.

    Raises OSError.
    """
    from pymq.cli.broker.fork_server import serve_loaded
    from pymq.net.fork_server import fork_off
    from pymq.workers.forked import can_fork

    return fork_off(serve_loaded) if can_fork() else None


async def serve_machine(config: BrokerConfig, line: CommandLine, forks: BegunServer | None, as_json: bool) -> None:
    """Run the workers until a signal comes. Raises UsageError, ConfigError, StoreError."""
    from pymq.net.runtime import StopSignals
    from pymq.net.service_manager import notify

    with StopSignals() as signals, suppress(StoppedError):
        async with running_workers(config, line, signals, forks) as machine:
            _print_ready(machine, as_json)
            notify(f"READY=1\nSTATUS={machine.up_count} of {len(machine.layout.active)} workers serve")
            await signals.wait()
            notify("STOPPING=1")


class Machine(NamedTuple):
    """A machine whose workers have started."""

    config: BrokerConfig
    layout: Layout
    supervisor: Supervisor
    metrics: str = ""
    grpc: str = ""

    @property
    def up_count(self) -> int:
        return sum(one.is_up for one in self.supervisor.supervised)

    def rows(self) -> list[dict[str, Any]]:
        """Return each worker for a ready object."""
        root = self.config.store_path_root_dir
        return [
            {
                "worker": one.worker.number,
                "name": one.worker.name,
                "broker": one.process.ready.get("broker") if one.process is not None else None,
                "store": one.worker.directory(root),
                "pid": one.process.pid if one.process is not None else None,
                "state": _state(one),
            }
            for one in self.supervisor.supervised
        ]


def _state(one: Supervised) -> str:
    if one.restarts.is_left_down:
        return "left down"
    return "starting" if not one.is_up else "retiring" if one.retires else "up"


@asynccontextmanager
async def running_workers(
    config: BrokerConfig,
    line: CommandLine,
    signals: StopSignals,
    begun: BegunServer | None,
    environ: Mapping[str, str] = os.environ,
) -> AsyncIterator[Machine]:
    """Start the workers, and end them with the block. ``begun``: of :func:`begin_fork_server`.

    Raises UsageError, ConfigError, StoreError, and StoppedError when a signal ends the start.
    """
    from pymq.cli.proxy.command import port_variables
    from pymq.clock import SystemClock
    from pymq.net.machine import memory_bytes
    from pymq.store.disk.fs import RealFiles
    from pymq.store.disk.workers_file import read_layout
    from pymq.workers.directory import lock_machine, retire
    from pymq.workers.forked import ForkServer, can_fork
    from pymq.workers.process import WorkerProcess
    from pymq.workers.settings import worker_settings
    from pymq.workers.supervisor import Supervisor

    root = config.store_path_root_dir
    if line.grpc_port is not None:
        environ = {**environ, **port_variables()}  # each worker takes what the ports of the others pass on
    forks = ForkServer([sys.executable, "-m", FORK_SERVER], environ, begun) if can_fork() else None

    async def start(line: CommandLine, settings: Mapping[str, str]) -> WorkerProcess:
        words = worker_arguments(line, settings)
        if forks is not None:
            return WorkerProcess(await forks.start(words))
        return await WorkerProcess.start([sys.executable, "-m", "pymq", *words], environ)

    lock = lock_machine(RealFiles(), root)
    try:
        if forks is not None:
            await forks.prepare()  # it loads what the workers need meanwhile
        count = _count(config, read_layout(RealFiles(), root))
        layout = await signals.unless_stopped(_laid_out(config, count))
        memory = memory_bytes()
        own = {worker.number: worker_settings(config, layout, worker, root, memory, count) for worker in layout.active}
        _check_ports(config.bind_address, own)
        with _reserved(config.bind_address, line.grpc_port) as grpc_port:
            own_line = line._replace(grpc_port=grpc_port)
            supervisor = Supervisor(
                layout.active,
                lambda one: start(own_line, own[one.worker.number] | same_port(one)),
                clock=SystemClock(),
                cores=_cores() if config.workers_pinned else (),
                retiring=[number for number in own if number >= count],
                on_retired=lambda worker: retire(RealFiles(), root, worker.number),
            )
            place = metrics_place(config, config.broker_ip1)
            try:
                async with _serving_metrics(place, config, supervisor) as metrics:
                    with _reviving(supervisor):
                        await signals.unless_stopped(supervisor.start())
                        grpc = "" if grpc_port is None else f"{config.bind_address}:{grpc_port}"
                        yield Machine(config, layout, supervisor, metrics, grpc)
            finally:
                await supervisor.stop()
    finally:
        if forks is not None:
            await forks.stop()
        lock.release()


async def _laid_out(config: BrokerConfig, count: int) -> Layout:
    """Return the workers of the directory, which is ready for them. ``count`` of them stay."""
    from pymq.store.disk.fs import RealFiles
    from pymq.store.disk.workers_file import is_store, planned_layout, read_layout, write_layout
    from pymq.workers.directory import prepare_new_workers, wait_until_free

    files, root = RealFiles(), config.store_path_root_dir
    before = read_layout(files, root)
    layout = planned_layout(
        before,
        config.broker_name,
        count,
        is_store=is_store(files, root),
        keeps_name=config.first_worker_keeps_name,
    )
    going = [worker.name for worker in layout.active if worker.number >= count]
    if going and config.raft_enabled:
        raise UsageError(
            f"{root} has {len(layout.active)} workers, and the Raft groups of {', '.join(going)} would lose members: "
            f"give --workers {len(layout.active)}, and move their topics to other groups first"
        )
    known = layout.workers if before is None else before.workers
    await wait_until_free(files, [worker.directory(root) for worker in known], print_note)
    if layout != before:
        write_layout(files, root, layout)
    if going:
        print_note(f"{', '.join(going)} take no new messages, and end once all is read that they have")
    if not config.is_slave and not config.raft_enabled:
        new = prepare_new_workers(files, root, layout)
        if new:
            names = ", ".join(worker.name for worker in new)
            print_note(f"new workers, with the topics, groups and users of {layout.workers[0].name}: {names}")
    return layout


def same_port(one: Supervised) -> dict[str, str]:
    """Return the port of a worker that starts again, where others know it: it may have been any free one."""
    return {"listenPort": one.address.rpartition(":")[2]} if one.address else {}


def worker_arguments(line: CommandLine, settings: Mapping[str, str]) -> list[str]:
    """Return the arguments of a worker's ``pymq``."""
    result = ["broker", "--json", "--log-level", line.log_level]
    if line.config_file is not None:
        result += ["-c", line.config_file]
    if line.grpc_port is not None:
        result += ["--grpc-port", str(line.grpc_port)]
    if line.grpc_signature_age is not None:
        result += ["--grpc-signature-age", str(line.grpc_signature_age)]
    for key, value in (dict(line.given) | dict(settings)).items():
        result += ["--set", f"{key}={value}"]
    return result


def _check_ports(host: str, own: Mapping[int, Mapping[str, str]]) -> None:
    """Raise UsageError when a port of a worker is in use."""
    from pymq.workers.settings import PORTS_APART

    for number, settings in own.items():
        for key in ("listenPort", "haListenPort", "fastListenPort"):
            port = int(settings.get(key, 0))
            error = _bind_problem(host, port) if port else None
            if error is not None:
                last = PORTS_APART * (len(own) - 1)
                raise UsageError(
                    f"{key} {port} of worker {number} can't be used on {host}: {error}; {len(own)} workers take every "
                    f"{PORTS_APART}th port from the first to the first + {last}: choose another first port, or 0 for "
                    "any free ones"
                )


def _bind_problem(host: str, port: int) -> str | None:
    """Return why a port can't be listened on, None when it can."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as attempt:
        attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            attempt.bind((host, port))
        except OSError as error:
            return error.strerror or str(error)
    return None


class _reserved:
    """Keeps the port that all workers share for gRPC: the system spreads connections over the workers."""

    def __init__(self, host: str, port: int | None) -> None:
        self._host = host
        self._port = port
        self._socket: socket.socket | None = None

    def __enter__(self) -> int | None:
        if self._port is None:
            return None
        if not hasattr(socket, "SO_REUSEPORT"):
            raise UsageError("this system can't share a port between workers: run pymq proxy instead of --grpc-port")
        problem = _bind_problem(self._host, self._port) if self._port else None
        if problem:
            raise UsageError(f"--grpc-port {self._port} can't be used on {self._host}: {problem}; choose another one")
        self._socket = socket.socket(socket.AF_INET6 if ":" in self._host else socket.AF_INET)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._socket.bind((self._host, self._port))
        port: int = self._socket.getsockname()[1]
        return port

    def __exit__(self, *_: object) -> None:
        if self._socket is not None:
            self._socket.close()


class _reviving:
    """Lets SIGHUP start workers again that were left down."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._before: Any = None

    def __enter__(self) -> None:
        import asyncio

        if hasattr(signal, "SIGHUP"):
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._revive)

    def _revive(self) -> None:
        names = self._supervisor.revive()
        print_note(f"started again: {', '.join(names)}" if names else "no worker was left down")

    def __exit__(self, *_: object) -> None:
        import asyncio

        if hasattr(signal, "SIGHUP"):
            asyncio.get_running_loop().remove_signal_handler(signal.SIGHUP)


@asynccontextmanager
async def _serving_metrics(
    place: MetricsPlace | None, config: BrokerConfig, supervisor: Supervisor
) -> AsyncIterator[str]:
    """Serve the metrics of all workers; yields "http://host:port", empty without a place. Raises UsageError."""
    if place is None:
        yield ""
        return
    from pymq.config.metrics import parse_labels
    from pymq.model.hosts import format_address
    from pymq.workers.metrics import WorkersEndpoint

    labels = {"cluster": config.broker_cluster_name, "node_id": config.broker_name, "node_type": "machine"}
    endpoint = WorkersEndpoint(supervisor, parse_labels(config.metrics_label) | labels, place.access())
    try:
        address = await endpoint.start(place.host, place.port)
    except OSError as error:
        raise UsageError(
            f"metrics can't be served on {format_address(place.host, place.port)}: {error}; choose another port with "
            "--metrics-port (0 for any free one) or another metricsPromExporterHost"
        ) from error
    try:
        yield f"{place.scheme}://{address}"
    finally:
        await endpoint.stop()


def _print_ready(machine: Machine, as_json: bool) -> None:
    config, rows = machine.config, machine.rows()
    if as_json:
        ready: dict[str, Any] = {"machine": machine.layout.machine, "namesrv": config.namesrv_addr}
        ready |= {"store": config.store_path_root_dir, "pid": os.getpid(), "workers": rows}
        print_json_line(ready | metrics_member(machine.metrics) | ({"grpc": machine.grpc} if machine.grpc else {}))
        return
    grpc = f", gRPC on {machine.grpc}" if machine.grpc else ""
    print(
        f"{machine.up_count} of {len(rows)} workers of {machine.layout.machine} (cluster {config.broker_cluster_name}) "
        f"ready; name server {config.namesrv_addr or 'none'}; data in {config.store_path_root_dir}"
        f"{metrics_text(machine.metrics)}{grpc}"
    )
    for row in rows:
        print(f"  {row['name']} (pid {row['pid']}) on {row['broker'] or row['state']}")
    sys.stdout.flush()
