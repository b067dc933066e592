"""Faults of a master and its slaves: those of all clusters, those that meet the master, and what an operator does."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.simulation.broker_node import SimBroker
from tests.simulation.faults import Faults
from tests.simulation.master_slave.plan import WEIGHTS
from tests.simulation.timeline import SECOND

if TYPE_CHECKING:
    from tests.simulation.master_slave.cluster import MasterSlave

FAIL_OVER = "fail over"


class MasterSlaveFaults(Faults):
    """Applies faults, and records those that may cost messages."""

    weights = WEIGHTS
    down_us = 20 * SECOND

    def __init__(self, cluster: MasterSlave, rng: random.Random) -> None:
        self._group = cluster
        super().__init__(cluster, rng)

    def all_kinds(self) -> dict[str, Callable[[], bool]]:
        group = self._group
        return super().all_kinds() | {
            "kill the master": self.kill_master,
            "power loss of the master": lambda: self._power(group.master),
            "hand over": lambda: group.operator.hand_over(),
            FAIL_OVER: lambda: group.operator.fail_over(),
            "forced fail over": lambda: group.operator.force(),
            "topic change": lambda: group.operator.change_topics(),
        }

    def _client_hosts(self) -> list[str]:
        group = self._group
        return [node.process.host for node in (*group.producers, *group.consumers, group.operator)]

    def _die(self, broker: SimBroker, kind: str) -> None:
        self._group.note_death(broker, kind)
        super()._die(broker, kind)

    def _kill(self, broker: SimBroker | None, kind: str = "kill") -> bool:
        if broker is None:
            return False
        was_master = broker.is_master
        self._die(broker, kind)
        if was_master and FAIL_OVER in self._kinds and self._rng.random() < 0.5:
            self._group.timeline.after(SECOND, self._fail_over)
        self._later(self.down_us, lambda: self._start(broker))
        return True

    def kill_master(self) -> bool:
        """Kill the master, which starts again later; with some luck a slave takes over first."""
        return self._kill(self._group.master)

    def _fail_over(self) -> None:
        if not self.is_over and self._kinds[FAIL_OVER]():
            self._group.history.faults[FAIL_OVER] += 1

    def _start(self, broker: SimBroker) -> None:
        if broker.is_alive or self.is_over:
            return
        if broker in self._group.operator.held:
            self._later(20 * SECOND, lambda: self._start(broker))
        else:
            super()._start(broker)

    def _restart(self, broker: SimBroker | None) -> bool:
        """Stop a broker in good order, and start it again."""
        if broker is None or not super()._restart(broker):
            return False
        self._group.history.incident(self._group.timeline.now_us, "stop", broker.name)
        life = broker.process

        def start_again() -> None:
            if life.is_alive:
                self._later(10 * SECOND, start_again)  # the stop takes long, or the broker is paused
            else:
                self._start(broker)

        self._later(10 * SECOND, start_again)
        return True
