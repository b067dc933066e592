"""Checks that no broker believes a liar: none follows it, none changes its role or truncates its log on its word."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pymq.model.hosts import host_of
from pymq.namesrv.brokers import HOLDER_SILENCE_MAX_MS
from tests.simulation.broker_node import SimBroker
from tests.simulation.master_slave.liar import Liar
from tests.simulation.name_server import SimNameServer

LOOK_MS_MAX = 3_000  # between two looks

if TYPE_CHECKING:
    from tests.simulation.master_slave.cluster import MasterSlave


class Beliefs:
    """Looks at all brokers now and then. Does nothing without a liar."""

    def __init__(self, cluster: MasterSlave) -> None:
        self._cluster = cluster
        # name -> epoch and configured id of each broker that was a master at the last look
        self._masters: dict[str, tuple[int, int]] = {}
        self._epochs: set[tuple[int, str]] = set()  # all that true masters began
        self._reported: set[str] = set()
        self._were_silent: set[tuple[str, int, str]] = set()  # name server and its start, address of a master

    def look(self) -> None:
        liar = self._cluster.liar
        if liar is None:
            return
        for broker in self._cluster.brokers:
            self._look_at(broker, liar.host)
        for server in self._cluster.name_servers:
            self._look_at_routes(server, liar)

    def _look_at(self, broker: SimBroker, liar_host: str) -> None:
        record = broker.role_record
        # A slave whose id the liar has taken at the name servers takes another one: it stays a slave.
        if record is not None and f"{liar_host}:" in record.why and "belongs to" not in record.why:
            self._report(f"{broker.name} changed its role on the liar's word: {record.why}")
        if f"{liar_host}:" in broker.refused_start:
            self._report(f"{broker.name} did not start on the liar's word: {broker.refused_start}")
        parts = broker.parts
        if parts is None:
            return
        client = parts.side.ha_client_state()
        if client is not None and client.state == "following" and client.master_address.startswith(f"{liar_host}:"):
            self._report(f"{broker.name} follows the liar")
        self._look_at_role(broker)

    def _look_at_routes(self, server: SimNameServer, liar: Liar) -> None:
        """Check that a name server has not given the id of a registered master to the liar, and keeps that master."""
        table = server.table
        if table is None:
            return
        displaced = []
        for live in table.brokers.all_live():
            if not live.identity.is_master or live.host != host_of(live.identity.address):
                continue  # a slave, or the liar has registered it
            place = server.name, server.started_us, live.identity.address
            if table.brokers.silent_ms(live) > HOLDER_SILENCE_MAX_MS - LOOK_MS_MAX:
                self._were_silent.add(place)  # its id was free until it is listed again
            elif table.brokers.is_listed(live):
                self._were_silent.discard(place)
            elif place not in self._were_silent:
                displaced.append(live.identity.address)
        master = table.brokers.master_of(self._cluster.broker_name)
        if master is None or _knew_the_liar_first(server, liar, self._cluster.broker_name):
            return
        if master.identity.address == liar.address and displaced:
            self._report(f"{server.name} lists the liar as the master in place of {displaced}")

    def _look_at_role(self, broker: SimBroker) -> None:
        if broker.is_master:
            self._epochs.add(broker.entry)
            self._masters[broker.name] = broker.entry[0], broker.configured_id
            return
        epoch, configured_id = self._masters.pop(broker.name, (None, 0))
        record = broker.role_record
        if broker.configured_id != configured_id:
            return  # the operator has started it with another id, because it refused to start as the master
        if epoch is None or record is None or self._cluster.operator.is_busy or "becomes the master" in record.why:
            return
        if any(f"{node.address} is " in record.why for node in self._cluster.brokers):
            return  # it has followed a master that died before the next look
        if not any(other > epoch for other, _ in self._epochs | {node.entry for node in self._cluster.brokers}):
            self._report(f"{broker.name}, master of epoch {epoch}, stepped down without a newer one: {record.why}")

    def _report(self, text: str) -> None:
        if text not in self._reported:
            self._reported.add(text)
            self._cluster.history.violated(text)


def _knew_the_liar_first(server: SimNameServer, liar: Liar, broker_name: str) -> bool:
    """Return whether the name server takes the liar for the group's founder: it knew nothing of the group then.

    Only identity could tell it.
    """
    memory = server.table.brokers.memory(broker_name) if server.table is not None else None
    return memory is not None and memory.is_named_slave(liar.address)
