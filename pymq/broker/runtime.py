"""Runtime: what nearly every part of a broker takes, as one value."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from pymq.broker.work.sliced_work import SlicedWork
from pymq.broker.work.worker_threads import RunInThread
from pymq.clock import Clock
from pymq.config import BrokerConfig
from pymq.model.hosts import pack_host
from pymq.net.memory_budget import MemoryBudget
from pymq.store.disk.fs import Files
from pymq.wire.streams import Network


@dataclass(frozen=True, slots=True)
class Runtime:
    """The world that a broker's parts run in. Its owner makes it: a process, a test or the simulator.

    ``budget``: of the process's memory; ``sliced_work`` does long work in pieces; ``run_in_thread`` waits for the disk;
    ``schedule_turn_end`` asks for the end of a turn of the event loop, which commits what was staged.
    """

    config: BrokerConfig
    clock: Clock
    rng: random.Random
    files: Files
    network: Network
    run_in_thread: RunInThread
    schedule_turn_end: Callable[[], None]
    sliced_work: SlicedWork
    budget: MemoryBudget

    @property
    def store_host(self) -> bytes:
        """This broker's packed address, part of every message id. ``config.listen_port`` must be the port in use."""
        return pack_host(self.config.broker_ip1, self.config.listen_port)

    @property
    def root(self) -> str:
        """The directory of the store and its tables."""
        return self.config.store_path_root_dir
