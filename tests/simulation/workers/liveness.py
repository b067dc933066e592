"""What a worker's neighbours, its supervisor and the name servers must do while a worker is well, or has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.clients import TOPIC
from tests.simulation.timeline import MS, SECOND
from tests.simulation.workers.machine import WorkerNode

if TYPE_CHECKING:
    from tests.simulation.workers.cluster import Workers

LOOK_US = 500 * MS
SEND_WAIT_US_MAX = 5 * SECOND  # without a send beside a worker that is well
DOWN_US_MAX = 3 * SECOND  # until a worker that ended runs again: at most 0.6 s, and the fork
SYNC_DELAY_US_MAX = 30 * MS
# A broken connection may be found out so much later at its other end.
BROKEN_US = 35 * SECOND


class Liveness:
    """Looks at a machine now and then."""

    def __init__(self, cluster: Workers) -> None:
        self._cluster = cluster
        self._history = cluster.history
        self._well: dict[str, tuple[int, int]] = {}  # name -> the number of its start, since when it is well
        self._down_us: dict[str, int] = {}  # since when it has not run beside a supervisor that should start it
        self._left_down: set[str] = set()
        self._listed: set[tuple[str, int, str, int]] = set()  # worker and start, name server and its start
        self.broken_us = -BROKEN_US  # when connections were last broken
        self.slow_us = -BROKEN_US  # by when the last slow links are as fast as usual: calls time out on them

    def look(self) -> None:
        for node in self._cluster.brokers:
            self._look_at_sends(node)
            self._look_at_restarts(node)
        self._look_at_routes()

    # -- neighbours -----------------------------------------------------------------------------------------------

    def _look_at_sends(self, node: WorkerNode) -> None:
        """Check that sends to a worker that is well go on, whatever its neighbours do."""
        now_us = self._cluster.timeline.now_us
        if not _is_well(node):
            self._well.pop(node.name, None)
            return
        count, well_us = self._well.get(node.name, (0, 0))
        if count != node.start_count:
            well_us = now_us
        self._well[node.name] = node.start_count, well_us
        probe = self._cluster.probes[node.name]
        if probe.is_stopping or probe.last_acked_us < 0:
            return
        wait_us = now_us - max(well_us, probe.last_acked_us, self.broken_us)
        if wait_us > SEND_WAIT_US_MAX:
            self._history.violated(f"no send to {node.name} for {wait_us / SECOND:.1f} s, though it is well")
            probe.last_acked_us = now_us

    # -- the supervisor -------------------------------------------------------------------------------------------

    def _look_at_restarts(self, node: WorkerNode) -> None:
        """Check that a worker that ended runs again soon, and is left down after five ends within a minute alone."""
        now_us, machine = self._cluster.timeline.now_us, self._cluster.machine
        one = machine.one(node)
        if one is None or machine.is_stopping:
            self._down_us.pop(node.name, None)
            self._left_down.discard(node.name)
            return
        if one.restarts.is_left_down and node.name not in self._left_down:
            self._left_down.add(node.name)
            self._history.operations["workers left down"] += 1
            if not machine.has_many_ends(node, LOOK_US // MS):
                self._history.violated(f"{node.name} is left down too early")
        elif not one.restarts.is_left_down:
            self._left_down.discard(node.name)
        if node.is_alive or one.restarts.is_left_down:
            self._down_us.pop(node.name, None)
            return
        down_us = now_us - self._down_us.setdefault(node.name, now_us)
        if down_us > DOWN_US_MAX:
            self._down_us[node.name] = now_us
            self._history.violated(f"{node.name} has not been started again for {down_us / SECOND:.1f} s")

    # -- name servers ---------------------------------------------------------------------------------------------

    def _look_at_routes(self) -> None:
        """Check that a name server lists a worker as long as it is well: a neighbour's end takes it out of no route."""
        cluster, before = self._cluster, self._listed
        self._listed = set()
        if cluster.timeline.now_us - max(self.broken_us, self.slow_us) < BROKEN_US:
            return
        for server in cluster.name_servers:
            table = server.table
            if table is None or server.process.is_paused or server.clock.skew_ms:
                continue
            route = table.route(TOPIC)
            names = {data.broker_name for data in route.broker_datas} if route is not None else set()
            for node in cluster.brokers:
                if node.name not in self._well or self._is_disturbed(node.host, server.host):
                    continue
                key = node.name, node.start_count, server.name, server.started_us
                if node.name in names:
                    self._listed.add(key)
                elif key in before:
                    self._history.violated(f"{server.name} does not list {node.name} any more, though it is well")

    def _is_disturbed(self, one: str, other: str) -> bool:
        """Return whether messages between two machines are, or were a moment ago, held up."""
        network, pairs = self._cluster.network, ((one, other), (other, one))
        healed_us = max(network.healed_us.get(pair, -BROKEN_US) for pair in pairs)
        return network.is_disturbed(*pairs) or self._cluster.timeline.now_us - healed_us < BROKEN_US


def _is_well(node: WorkerNode) -> bool:
    disk = node.disk
    is_disk_good = not (disk.is_full or disk.failing_sync_count or disk.sync_delay_us > SYNC_DELAY_US_MAX)
    return node.is_serving and not node.process.is_paused and is_disk_good and not node.is_broken
