"""Records from outside which slave could copy its master's tables, and when."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from tests.simulation.broker_node import SimBroker
from tests.simulation.network import SimNetwork


@dataclass(slots=True)
class Span:
    """A time in which a slave followed one life of a master, in one epoch, without a disturbance between them."""

    life: tuple[int, str, int]  # the slave's start, the master's address and start
    epoch: int
    start_us: int
    end_us: int


class Followings:
    """The spans of all slaves. Call :meth:`look` every few seconds: it misses what breaks and mends in between."""

    def __init__(self, brokers: list[SimBroker], network: SimNetwork) -> None:
        self._brokers = brokers
        self._network = network
        self._spans: dict[str, list[Span]] = defaultdict(list)
        self._looked_us = -1

    def look(self) -> None:
        """Records the master that each slave follows now."""
        now_us = self._network.timeline.now_us
        masters = {broker.address: broker for broker in self._brokers if broker.is_master}
        torn = self._torn_pairs() if masters else set()
        for slave in self._brokers:
            master = self._master_of(slave, masters)
            if master is None or not self._is_between_nothing(slave, master, torn):
                continue
            life, epoch = (slave.start_count, master.address, master.start_count), master.entry[0]
            spans = self._spans[slave.name]
            if spans and (spans[-1].life, spans[-1].epoch, spans[-1].end_us) == (life, epoch, self._looked_us):
                spans[-1].end_us = now_us
            else:
                spans.append(Span(life, epoch, now_us, now_us))
        self._looked_us = now_us

    def of(self, slave: SimBroker) -> Sequence[Span]:
        """Return the spans of a slave in the order of time."""
        return self._spans[slave.name]

    def _master_of(self, slave: SimBroker, masters: dict[str, SimBroker]) -> SimBroker | None:
        """Return the master that the slave follows, if both can work."""
        side = slave.parts.side if slave.parts is not None else None
        master = masters.get(side.master_address) if side is not None and side.is_following else None
        if master is None or slave.process.is_paused or master.process.is_paused:
            return None
        return None if slave.disk.is_full or slave.is_broken else master

    def _is_between_nothing(self, slave: SimBroker, master: SimBroker, torn: set[tuple[str, str]]) -> bool:
        """Return whether their connections carry everything as fast as they should."""
        there, back = (slave.host, master.host), (master.host, slave.host)
        return there not in torn and not self._network.is_disturbed(there, back)

    def _torn_pairs(self) -> set[tuple[str, str]]:
        """Return (opener, peer) of broken connections whose opener does not know yet: its questions wait in vain."""
        network = self._network
        return {
            (stream.local_host, stream.peer_host)
            for stream in network.streams
            if (stream.is_half_open or stream.other.is_closed) and network.is_listening(stream.peer_address)
        }
