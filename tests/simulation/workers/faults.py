"""Faults of a machine with workers: those of all clusters, and what ends workers, their supervisor, or all of them."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.simulation.broker_node import SimBroker
from tests.simulation.faults import HOUR_MS, SLOW_US_MAX, Faults
from tests.simulation.machine import Machine
from tests.simulation.timeline import MS, SECOND
from tests.simulation.workers.machine import WorkerNode
from tests.simulation.workers.plan import WEIGHTS

if TYPE_CHECKING:
    from tests.simulation.workers.cluster import Workers

RESTART_US = 3 * SECOND
SYNCS_MAX = 2  # the longest time of a worker thread's step, of the usual one of an fsync
KILLS_MAX = 12  # in a row: more than five, because a worker that waits for its start can't be killed


class WorkersFaults(Faults):
    """Applies faults to one machine, and records those that may cost messages."""

    weights = WEIGHTS
    down_us = 20 * SECOND

    def __init__(self, cluster: Workers, rng: random.Random) -> None:
        self._workers = cluster
        self._is_held = False  # the machine stays off for now
        super().__init__(cluster, rng)

    def all_kinds(self) -> dict[str, Callable[[], bool]]:
        kinds = super().all_kinds() | {
            "kills in a row": self._kill_in_a_row,
            "kill the machine": lambda: self._end_machine("kill"),
            "stop the machine": lambda: self._end_machine("stop"),
            "power loss of the machine": lambda: self._end_machine("power"),
            "reload": self._reload,
        }
        del kinds["power loss of a broker"]  # all workers have one machine's power
        return kinds

    def start(self) -> None:
        super().start()
        self._start_machine_again()

    def _start_machine_again(self) -> None:
        """Start the machine's process, again and again, when it has ended by itself, as an init system does."""
        if not self._is_held:
            self._workers.machine.start()
        self._workers.timeline.after(RESTART_US, self._start_machine_again)

    def _hosts(self) -> list[str]:
        return list(dict.fromkeys(super()._hosts()))

    def _client_hosts(self) -> list[str]:
        cluster = self._workers
        return [client.process.host for client in (*cluster.producers, *cluster.consumers)]

    # -- workers --------------------------------------------------------------------------------------------------

    def _die(self, broker: SimBroker, kind: str) -> None:
        self._workers.note_death(broker, kind)
        super()._die(broker, kind)

    def _kill(self, broker: SimBroker | None, kind: str = "kill") -> bool:
        """Let a worker die. Its supervisor starts it again."""
        if broker is None:
            return False
        self._die(broker, kind)
        return True

    def _kill_in_a_row(self) -> bool:
        broker = self._any_broker()
        if not isinstance(broker, WorkerNode):
            return False
        self._kill_again(broker, KILLS_MAX)
        return True

    def _kill_again(self, node: WorkerNode, left: int) -> None:
        """Kill a worker whenever it runs, until it is left down; SIGHUP starts it again later."""
        one = self._workers.machine.one(node)
        if self.is_over or one is None or not left:
            return
        if one.restarts.is_left_down:
            self._later(40 * SECOND, self._workers.machine.reload)
            return
        if node.is_alive:
            self._die(node, "kill")
            left -= 1
        self._workers.timeline.after(int((0.05 + self._rng.random()) * SECOND), self._kill_again, node, left)

    def _restart(self, broker: SimBroker | None) -> bool:
        """Stop a worker in good order. Its supervisor starts it again."""
        if not isinstance(broker, WorkerNode) or broker.process.is_paused:
            return False
        self.note(f"orderly stop of {broker.name}")
        self._workers.note_death(broker, "stop")
        broker.end()
        return True

    # -- the machine ----------------------------------------------------------------------------------------------

    def _end_machine(self, kind: str) -> bool:
        machine = self._workers.machine
        if not machine.is_alive or machine.is_stopping:
            return False
        self.note(f"{kind} {machine.name}")
        for node in machine.nodes:
            if node.is_alive or kind == "power":
                self._workers.note_death(node, "power" if kind == "power" else "stop")
        if kind == "stop":
            machine.stop()  # it starts again when its last worker has ended
            return True
        self._is_held = True
        if kind == "power":
            machine.lose_power()
        else:
            machine.kill()
        self._later(self.down_us, self._release)
        return True

    def _release(self) -> None:
        self._is_held = False
        self._workers.machine.start()

    def _reload(self) -> bool:
        self._workers.machine.reload()
        return self._workers.machine.is_alive

    def heal_all(self) -> None:
        self._is_held = False
        super().heal_all()
        self._workers.machine.start()
        self._workers.machine.reload()

    def _clock_jump(self) -> bool:
        """Change the clock of a machine: that of the workers is one."""
        machine = self._workers.machine
        node: Machine = self._rng.choice([machine, *self._workers.name_servers])
        jump_ms = int(self._rng.choice((1, -1)) * self._rng.choice((500, 10_000, HOUR_MS)) * self._rng.random())
        self.note(f"clock of {node.name} {jump_ms:+} ms")
        for each in (machine, *machine.nodes) if node is machine else (node,):
            each.clock.skew_ms += jump_ms
        return True

    # -- the machine's disk ---------------------------------------------------------------------------------------

    def _full_disk(self) -> bool:
        nodes = self._workers.machine.nodes
        if any(node.disk.is_full for node in nodes):
            return False
        self.note("the machine's disk is full")
        for node in nodes:
            node.disk.fill(True)
        self._later(20 * SECOND, self._free)
        return True

    def _free(self) -> None:
        for node in self._workers.machine.nodes:
            node.disk.fill(False)
            self._restart_if_broken(node)

    def _slow_disk(self) -> bool:
        delay_us = self._rng.choice((20, 200, 2000)) * MS
        self.note(f"fsync of the machine takes {delay_us / MS} ms")
        for node in self._workers.machine.nodes:
            node.disk.sync_delay_us = delay_us
            node.save_us = max(node.save_us, SYNCS_MAX * delay_us)
            self._later(30 * SECOND, node.disk.speed_up)
        return True

    # -- network --------------------------------------------------------------------------------------------------

    def _cut_connections(self) -> bool:
        self._workers.liveness.broken_us = self._workers.timeline.now_us
        return super()._cut_connections()

    def _slow_network(self) -> bool:
        self._workers.liveness.slow_us = self._workers.timeline.now_us + SLOW_US_MAX
        return super()._slow_network()

    def _half_open(self) -> bool:
        self._workers.liveness.broken_us = self._workers.timeline.now_us
        return super()._half_open()
