"""A broker's collectors, put together for each scrape: parts come and go with the broker's role."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pymq
from pymq.broker.assembly.parts import BrokerParts
from pymq.broker.metrics.clients import ClientMetrics
from pymq.broker.metrics.filters import FilterMetrics
from pymq.broker.metrics.lag import LagMetrics
from pymq.broker.metrics.lites import LiteMetrics
from pymq.broker.metrics.pops import PopMetrics
from pymq.broker.metrics.raft import RaftMetrics
from pymq.broker.metrics.replication import ROLE_CHANGES, ReplicationMetrics
from pymq.broker.metrics.storage import StorageMetrics
from pymq.broker.metrics.timers import TimerMetrics
from pymq.broker.metrics.traffic import TrafficMetrics
from pymq.broker.metrics.transactions import TransactionMetrics
from pymq.config.metrics import parse_labels
from pymq.metrics.audit import AuditMetrics
from pymq.metrics.connections import ConnectionMetrics
from pymq.metrics.family import Collector, Family, Reading, gauge, single
from pymq.net.memory_budget import MemoryBudget

if TYPE_CHECKING:
    from pymq.broker.assembly.broker import Broker

NODE_TYPE = "broker"
INFO = gauge("pymq_broker_info", "Always 1; the label says which version runs.", "pymq_version")
SERVING = gauge("pymq_broker_serving", "1 while requests are answered, 0 while the broker starts or changes its role.")


BROKER_METRICS = (
    *(INFO, SERVING, ROLE_CHANGES),
    *(metric for part in (ConnectionMetrics, AuditMetrics, TrafficMetrics) for metric in part.metrics),
    *(metric for part in (ClientMetrics, LagMetrics) for metric in part.metrics),
    *(
        metric
        for part in (
            StorageMetrics,
            ReplicationMetrics,
            RaftMetrics,
            FilterMetrics,
            TransactionMetrics,
            TimerMetrics,
            PopMetrics,
            LiteMetrics,
        )
        for metric in part.metrics
    ),
)


class BrokerState:
    """The figures that a broker has even while it serves nothing."""

    metrics = (INFO, SERVING, ROLE_CHANGES)

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def collect(self) -> Iterator[Family]:
        yield Family(INFO, (Reading((pymq.__version__,), 1),))
        yield single(SERVING, self._broker.parts is not None)
        yield single(ROLE_CHANGES, self._broker.switch.change_count if self._broker.switch is not None else 0)


class BrokerMetrics:
    """All of a broker's figures, from before its store is opened until it has stopped."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._of_parts: tuple[BrokerParts, list[Collector]] | None = None

    @property
    def budget(self) -> MemoryBudget:
        """Return the process's memory budget, which counts scrapes too."""
        return self._broker.budget

    def labels(self) -> dict[str, str]:
        """Return the labels of every metric (Java: BrokerMetricsManager.newAttributesBuilder)."""
        config = self._broker.config
        own = {"cluster": config.broker_cluster_name, "node_id": config.broker_name, "node_type": NODE_TYPE}
        return parse_labels(config.metrics_label) | own

    def collectors(self) -> list[Collector]:
        """Return the present collectors. Those of the parts stay, with what they have read, until the role changes."""
        broker = self._broker
        return [
            BrokerState(broker),
            ConnectionMetrics(broker.server),
            AuditMetrics(broker.security.audit),
            *self._parts_collectors(),
        ]

    def _parts_collectors(self) -> list[Collector]:
        parts = self._broker.parts
        if parts is None:
            self._of_parts = None
            return []
        if self._of_parts is None or self._of_parts[0] is not parts:
            self._of_parts = (
                parts,
                [
                    TrafficMetrics(parts),
                    ClientMetrics(parts),
                    LagMetrics(parts),
                    StorageMetrics(parts, lambda: self._broker.recovery),
                    ReplicationMetrics(parts),
                    RaftMetrics(parts),
                    FilterMetrics(parts),
                    TransactionMetrics(parts),
                    TimerMetrics(parts),
                    PopMetrics(parts),
                    LiteMetrics(parts),
                ],
            )
        return self._of_parts[1]
