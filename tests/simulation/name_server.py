"""A name server on a simulated machine: the product's own, which loses its memory with each death."""

from __future__ import annotations

import random

from pymq.config import NamesrvConfig
from pymq.config.tls import DISABLED
from pymq.namesrv.server import NameServer
from pymq.namesrv.table import RouteTable
from tests.simulation.history import History
from tests.simulation.loop import SimLoop, start
from tests.simulation.machine import Machine
from tests.simulation.network import SimNetwork
from tests.simulation.timeline import Timeline

PORT = 9876


class SimNameServer(Machine):
    """A name server on its machine."""

    def __init__(self, name: str, host: str, timeline: Timeline, network: SimNetwork, history: History) -> None:
        super().__init__(name, host, PORT, timeline, network, history)
        self._graves: list[SimLoop] = []
        self._server: NameServer | None = None
        self.started_us = -1

    @property
    def table(self) -> RouteTable | None:
        """What it knows now; None while it is dead."""
        return self._server.table if self._server is not None and self.process.is_alive else None

    def start(self) -> None:
        self.started_us = self._timeline.now_us
        loop = self.begin_process(random.Random(1))
        self._graves.append(loop)
        config = NamesrvConfig(bind_address=self.host, listen_port=PORT, tls_server_mode=DISABLED)
        self._server = NameServer(clock=self.clock, config=config, now_s=self._timeline.now_s)
        start(loop, self._server.start())
