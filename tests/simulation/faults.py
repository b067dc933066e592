"""Draws faults from the seed, applies them to a cluster, and mends them later. Counts those that took effect.

Here are the faults that every kind of cluster has; each kind adds its own.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from tests.simulation.broker_node import SimBroker
from tests.simulation.machine import Machine
from tests.simulation.network import Link
from tests.simulation.timeline import MS, SECOND

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster

HOUR_MS = 3_600_000
SLOW_US_MAX = 30 * SECOND  # how long links are slow


class Faults(ABC):
    """Applies faults. The method of each kind returns whether there was anything to apply it to."""

    weights: Mapping[str, int]  # kind of fault -> how often it happens, relative to the others
    down_us: int  # how long a killed broker is down at most

    def __init__(self, cluster: Cluster, rng: random.Random) -> None:
        self._cluster = cluster
        self._rng = rng
        self.is_over = False
        kinds = self.all_kinds()
        self._kinds = {kind: kinds[kind] for kind in cluster.plan.kinds}

    def all_kinds(self) -> dict[str, Callable[[], bool]]:
        """Return what applies each kind of fault."""
        return {
            "kill a broker": lambda: self._kill(self._any_broker()),
            "power loss of a broker": lambda: self._power(self._any_broker()),
            "orderly restart": lambda: self._restart(self._any_broker()),
            "pause": self._pause,
            "kill a name server": self._kill_name_server,
            "partition": lambda: self._partition(both_ways=True),
            "one-way partition": lambda: self._partition(both_ways=False),
            "cut connections": self._cut_connections,
            "half-open connections": self._half_open,
            "slow network": self._slow_network,
            "clock jump": self._clock_jump,
            "full disk": self._full_disk,
            "failing fsync": self._failing_fsync,
            "slow disk": self._slow_disk,
        }

    # -- when ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Plan the first fault."""
        self._plan_next()

    def stop(self) -> None:
        self.is_over = True

    def _plan_next(self) -> None:
        gap_us = int(self._rng.expovariate(1) * self._cluster.plan.gap_us)
        self._cluster.timeline.after(gap_us, self._next)

    def _next(self) -> None:
        if self.is_over:
            return
        kinds = list(self._kinds)
        kind = self._rng.choices(kinds, [self.weights[kind] for kind in kinds])[0]
        if self._kinds[kind]():
            self._cluster.history.faults[kind] += 1
        self._plan_next()

    def _later(self, longest_us: int, mend: Callable[[], None]) -> None:
        """Call ``mend`` after a random time, often a short one."""
        self._cluster.timeline.after(int(self._rng.random() ** 2 * longest_us), mend)

    def note(self, text: str) -> None:
        self._cluster.history.note(f"{self._cluster.timeline.now_us / SECOND:.4f} FAULT {text}")

    def heal_all(self) -> None:
        """Mend everything that is broken, and start what is dead."""
        cluster = self._cluster
        self.note("all is mended")
        cluster.network.links.clear()
        cluster.network.heal(set(cluster.network.cuts))
        for server in cluster.name_servers:
            server.resume()
            if not server.is_alive:
                server.start()
        for broker in cluster.brokers:
            broker.disk.heal()
            broker.resume()
            if broker.is_alive and broker.is_broken:
                self._die(broker, "kill")  # after a failed sync its store takes no writes until a restart
            if not broker.is_alive:
                broker.start()

    # -- targets ------------------------------------------------------------------------------------------------

    def _any_broker(self) -> SimBroker | None:
        living = [broker for broker in self._cluster.brokers if broker.is_alive]
        return self._rng.choice(living) if living else None

    def _nodes(self) -> list[Machine]:
        return [*self._cluster.brokers, *self._cluster.name_servers]

    def _any_node(self) -> Machine | None:
        living = [node for node in self._nodes() if node.is_alive]
        return self._rng.choice(living) if living else None

    def _hosts(self) -> list[str]:
        return [node.host for node in self._nodes()]

    @abstractmethod
    def _client_hosts(self) -> list[str]:
        """Return the clients' machines that a partition may reach."""

    # -- machines -----------------------------------------------------------------------------------------------

    def _die(self, broker: SimBroker, kind: str) -> None:
        self.note(f"{kind} {broker.name}")
        if kind == "power":
            broker.lose_power()
        else:
            broker.kill()

    def _kill(self, broker: SimBroker | None, kind: str = "kill") -> bool:
        """Let a broker die, and start it later."""
        if broker is None:
            return False
        self._die(broker, kind)
        self._later(self.down_us, lambda: self._start(broker))
        return True

    def _power(self, broker: SimBroker | None) -> bool:
        return self._kill(broker, "power")

    def _start(self, broker: SimBroker) -> None:
        if not broker.is_alive:
            broker.start()

    def _restart(self, broker: SimBroker | None) -> bool:
        """Stop a broker in good order."""
        if broker is None or broker.process.is_paused:
            return False
        self.note(f"orderly stop of {broker.name}")
        broker.stop()
        return True

    def _pause(self) -> bool:
        return self._pause_node(self._any_node(), 60 * SECOND)

    def _pause_node(self, node: Machine | None, longest_us: int) -> bool:
        if node is None or node.process.is_paused:
            return False
        self.note(f"pause {node.name}")
        node.pause()
        self._later(longest_us, node.resume)
        return True

    def _kill_name_server(self) -> bool:
        living = [server for server in self._cluster.name_servers if server.is_alive]
        if not living:
            return False
        server = self._rng.choice(living)
        self.note(f"kill {server.name}")
        if self._rng.random() < 0.5:
            server.kill()
        else:
            server.lose_power()
        self._later(30 * SECOND, lambda: None if server.is_alive else server.start())
        return True

    def _clock_jump(self) -> bool:
        node = self._rng.choice(self._nodes())
        jump_ms = int(self._rng.choice((1, -1)) * self._rng.choice((500, 10_000, HOUR_MS)) * self._rng.random())
        self.note(f"clock of {node.name} {jump_ms:+} ms")
        node.clock.skew_ms += jump_ms
        return True

    # -- disks --------------------------------------------------------------------------------------------------

    def _full_disk(self) -> bool:
        broker = self._any_broker()
        if broker is None or broker.disk.is_full:
            return False
        self.note(f"disk of {broker.name} is full")
        broker.disk.fill(True)

        def free() -> None:
            broker.disk.fill(False)
            self._restart_if_broken(broker)

        self._later(20 * SECOND, free)
        return True

    def _failing_fsync(self) -> bool:
        """Fail one fsync. The store takes no writes after that, so restart the broker later."""
        broker = self._any_broker()
        if broker is None:
            return False
        self.note(f"fsync of {broker.name} fails")
        broker.disk.fail_syncs(1)

        def restart() -> None:
            broker.disk.fail_syncs(0)
            self._restart_if_broken(broker)

        self._later(20 * SECOND, restart)
        return True

    def _restart_if_broken(self, broker: SimBroker) -> None:
        if not self.is_over and broker.is_alive and broker.is_broken:
            self._kill(broker)

    def _slow_disk(self) -> bool:
        broker = self._rng.choice(self._cluster.brokers)
        broker.disk.sync_delay_us = self._rng.choice((20, 200, 2000)) * MS
        self.note(f"fsync of {broker.name} takes {broker.disk.sync_delay_us / MS} ms")

        self._later(30 * SECOND, broker.disk.speed_up)
        return True

    # -- network ------------------------------------------------------------------------------------------------

    def _partition(self, *, both_ways: bool) -> bool:
        """Separate some machines from the others; clients may be on either side."""
        rng, hosts = self._rng, self._hosts()
        rng.shuffle(hosts)
        here = set(hosts[: rng.randrange(1, max(2, len(hosts)))])
        clients = self._client_hosts()
        here |= {host for host in clients if rng.random() < 0.3}
        there = {*hosts, *clients} - here
        cuts = {(a, b) for a in here for b in there}
        if both_ways:
            cuts |= {(b, a) for a, b in cuts}
        self.note(f"{'partition' if both_ways else 'one-way partition'} {sorted(here)} | {sorted(there)}")
        self._cut(cuts, 40 * SECOND)
        return True

    def _cut(self, cuts: set[tuple[str, str]], longest_us: int) -> None:
        """Let nothing through in these directions for a time."""
        network = self._cluster.network
        network.cuts |= cuts
        self._later(longest_us, lambda: network.heal(cuts))

    def _cut_connections(self) -> bool:
        """Break some connections. Each end notices at its own time, so one may have two where the other has one."""
        streams = [stream for stream in self._cluster.network.streams if self._rng.random() < 0.3]
        longest_us = self._rng.choice((SECOND, SECOND, 30 * SECOND))
        for stream in streams:
            stream.break_now("connection lost")
            self._later(longest_us, lambda other=stream.other: other.break_now("connection lost"))
        if streams:
            self.note(f"{len(streams)} connections are cut")
        return bool(streams)

    def _half_open(self) -> bool:
        """Make some connections carry nothing any more, without a notice to either end."""
        streams = [stream for stream in self._cluster.network.streams if self._rng.random() < 0.15]
        for stream in streams:
            stream.is_half_open = stream.other.is_half_open = True
        if streams:
            self.note(f"{len(streams)} connections are half open")
        return bool(streams)

    def _slow_network(self) -> bool:
        network, rng = self._cluster.network, self._rng
        pairs = [(a, b) for a in self._hosts() for b in self._hosts() if a != b and rng.random() < 0.5]
        link = Link(rng.choice((5, 50, 500)) * MS, rng.choice((10, 200, 3000)) * MS, rng.choice((0.1, 0.9)))
        for pair in pairs:
            network.links[pair] = link
        self.note(f"{len(pairs)} links are slow: {link}")

        def mend() -> None:
            for pair in pairs:
                network.links.pop(pair, None)

        self._later(SLOW_US_MAX, mend)
        return bool(pairs)
