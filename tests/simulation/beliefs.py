"""Checks that no broker believes a liar: none follows it, none changes its role or truncates its log on its word."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.broker_node import SimBroker

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster


class Beliefs:
    """Looks at all brokers now and then. Does nothing without a liar."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._masters: dict[str, int] = {}  # name -> epoch of each broker that was a master at the last look
        self._epochs: set[tuple[int, str]] = set()  # all that true masters began
        self._reported: set[str] = set()

    def look(self) -> None:
        liar = self._cluster.liar
        if liar is None:
            return
        for broker in self._cluster.brokers:
            self._look_at(broker, liar.host)

    def _look_at(self, broker: SimBroker, liar_host: str) -> None:
        record = broker.role_record
        if record is not None and f"{liar_host}:" in record.why:
            self._report(f"{broker.name} changed its role on the liar's word: {record.why}")
        parts = broker.parts
        if parts is None:
            return
        client = parts.side.ha_client_state()
        if client is not None and client.state == "following" and client.master_address.startswith(f"{liar_host}:"):
            self._report(f"{broker.name} follows the liar")
        self._look_at_role(broker)

    def _look_at_role(self, broker: SimBroker) -> None:
        if broker.is_master:
            self._epochs.add(broker.entry)
            self._masters[broker.name] = broker.entry[0]
            return
        epoch = self._masters.pop(broker.name, None)
        record = broker.role_record
        if epoch is None or record is None or self._cluster.operator.is_busy or "becomes the master" in record.why:
            return
        if not any(other > epoch for other, _ in self._epochs | {node.entry for node in self._cluster.brokers}):
            self._report(f"{broker.name}, master of epoch {epoch}, stepped down without a newer one: {record.why}")

    def _report(self, text: str) -> None:
        if text not in self._reported:
            self._reported.add(text)
            self._cluster.history.violated(text)
