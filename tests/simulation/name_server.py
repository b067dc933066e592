"""A name server on a simulated machine: the product's own, which loses its memory with each death."""

from __future__ import annotations

import random

from pymq.config import NamesrvConfig
from pymq.config.tls import DISABLED
from pymq.namesrv.server import NameServer
from pymq.namesrv.table import RouteTable
from tests.simulation.history import History
from tests.simulation.loop import SimLoop, start
from tests.simulation.network import SimNetwork
from tests.simulation.timeline import NodeClock, Process, Timeline

PORT = 9876


class SimNameServer:
    """A name server on its machine. ``process`` is its latest run, dead or alive."""

    def __init__(self, name: str, host: str, timeline: Timeline, network: SimNetwork, history: History) -> None:
        self.name = name
        self.host = host
        self.address = f"{host}:{PORT}"
        self.clock = NodeClock(timeline)
        self._timeline = timeline
        self._network = network
        self._history = history
        self._graves: list[SimLoop] = []
        self.process = Process(timeline, name, host)
        self.process.is_alive = False
        self._server: NameServer | None = None
        self.started_us = -1

    @property
    def is_alive(self) -> bool:
        return self.process.is_alive

    @property
    def table(self) -> RouteTable | None:
        """What it knows now; None while it is dead."""
        return self._server.table if self._server is not None and self.process.is_alive else None

    def start(self) -> None:
        self._network.hosts_down.discard(self.host)
        self.started_us = self._timeline.now_us
        self.process = Process(self._timeline, self.name, self.host)
        loop = SimLoop(self._timeline, self.process, self._network, random.Random(1), self._failed)  # type: ignore[abstract]
        self._graves.append(loop)
        config = NamesrvConfig(bind_address=self.host, listen_port=PORT, tls_server_mode=DISABLED)
        self._server = NameServer(clock=self.clock, config=config, now_s=self._timeline.now_s)
        start(loop, self._server.start())

    def kill(self) -> None:
        self._network.process_died(self.process, with_power=False)
        self.process.die()

    def pause(self) -> None:
        """Suspend the process (SIGSTOP)."""
        self.process.pause()

    def resume(self) -> None:
        """Continue the process (SIGCONT)."""
        self.process.resume()

    def lose_power(self) -> None:
        self._network.hosts_down.add(self.host)
        self._network.process_died(self.process, with_power=True)
        self.process.die()

    def _failed(self, what: str, error: BaseException | None) -> None:
        if self.process.is_alive:
            self._history.violated(f"{what}: {type(error).__name__}: {error}")
