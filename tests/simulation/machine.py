"""The machine of a server: processes that live and die there, a clock that may be wrong, power that may go."""

from __future__ import annotations

import random
from abc import abstractmethod

from tests.simulation.disk import SimDisk
from tests.simulation.history import History
from tests.simulation.loop import SimLoop
from tests.simulation.network import SimNetwork
from tests.simulation.timeline import SECOND, NodeClock, Process, Timeline


class Machine:
    """The base of servers. ``process`` is the latest run, dead or alive."""

    def __init__(
        self, name: str, host: str, port: int, timeline: Timeline, network: SimNetwork, history: History
    ) -> None:
        self.name = name
        self.host = host
        self.address = f"{host}:{port}"
        self.clock = NodeClock(timeline)
        self.process = Process(timeline, name, host)
        self.process.is_alive = False
        self._timeline = timeline
        self._network = network
        self._history = history

    @property
    def is_alive(self) -> bool:
        return self.process.is_alive

    def note(self, text: str) -> None:
        self._history.note(f"{self._timeline.now_us / SECOND:.4f} {self.name} {text}")

    @abstractmethod
    def start(self) -> None:
        """Start the program."""

    def begin_process(self, rng: random.Random, disk: SimDisk | None = None) -> SimLoop:
        """Switch the machine on, if it is off, and return the loop of a new process."""
        self._network.hosts_down.discard(self.host)
        self.process = Process(self._timeline, self.name, self.host)
        return SimLoop(self._timeline, self.process, self._network, rng, self._failed, disk)  # type: ignore[abstract]

    def kill(self) -> None:
        """End the process at once (SIGKILL)."""
        self._network.process_died(self.process, with_power=False)
        self.process.die()

    def lose_power(self) -> None:
        """Switch the machine off."""
        self._network.hosts_down.add(self.host)
        self._network.process_died(self.process, with_power=True)
        self.process.die()

    def pause(self) -> None:
        """Suspend the process (SIGSTOP)."""
        self.process.pause()

    def resume(self) -> None:
        """Continue the process (SIGCONT)."""
        self.process.resume()

    def _failed(self, what: str, error: BaseException | None) -> None:
        if self.process.is_alive:
            self._history.violated(f"{what}: {type(error).__name__}: {error}")
