"""A name server's figures for Prometheus, read from its tables at each scrape. RocketMQ's name server has none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pymq
from pymq.config.metrics import parse_labels
from pymq.metrics.audit import AuditMetrics
from pymq.metrics.connections import ConnectionMetrics
from pymq.metrics.family import Collector, Family, Reading, bounded, counter, gauge, single
from pymq.namesrv.server import NameServer
from pymq.net.memory_budget import MemoryBudget

NODE_TYPE = "namesrv"
_BROKER = ("cluster", "broker_name", "broker_id", "address")

INFO = gauge("pymq_namesrv_info", "Always 1; the label says which version runs.", "pymq_version")
BROKERS = gauge("pymq_namesrv_brokers", "Brokers that are online.", "cluster")
MASTERS = gauge("pymq_namesrv_masters", "Masters that are online.", "cluster")
SILENT = gauge("pymq_namesrv_broker_silent_seconds", "Time since a broker's last report.", *_BROKER, unit="seconds")
TOPICS = gauge("pymq_namesrv_topics", "Topics of all brokers.")
KV_ENTRIES = gauge("pymq_namesrv_kv_entries", "Shared values, for example order configurations.")
REGISTRATIONS = counter("pymq_namesrv_registrations_total", "Accepted broker reports.")
UNREGISTRATIONS = counter("pymq_namesrv_unregistrations_total", "Brokers that unregistered.")
EXPIRED = counter("pymq_namesrv_expired_brokers_total", "Brokers removed because they were silent for too long.")
LOST = counter("pymq_namesrv_lost_brokers_total", "Brokers removed because their connection ended.")


class TableMetrics:
    """The figures of one name server's tables."""

    metrics = (INFO, BROKERS, MASTERS, SILENT, TOPICS, KV_ENTRIES, REGISTRATIONS, UNREGISTRATIONS, EXPIRED, LOST)

    def __init__(self, server: NameServer) -> None:
        self._server = server

    def collect(self) -> Iterator[Family]:
        table = self._server.table
        live = table.brokers.all_live()
        brokers = Counter(broker.identity.cluster for broker in live)
        masters = Counter(broker.identity.cluster for broker in live if broker.identity.is_master)
        yield Family(INFO, (Reading((pymq.__version__,), 1),))
        yield Family(BROKERS, [Reading((cluster,), count) for cluster, count in brokers.items()])
        yield Family(MASTERS, [Reading((cluster,), masters[cluster]) for cluster in brokers])
        shown, left_out = bounded(live, self._server.config.metrics_series_max)
        silent = (
            Reading(
                (identity.cluster, identity.broker_name, str(identity.broker_id), identity.address), silent_ms / 1000
            )
            for identity, silent_ms in ((broker.identity, table.brokers.silent_ms(broker)) for broker in shown)
        )
        yield Family(SILENT, silent, left_out)
        yield single(TOPICS, len(table.topics))
        yield single(KV_ENTRIES, len(self._server.kv))
        yield single(REGISTRATIONS, table.registration_count)
        yield single(UNREGISTRATIONS, table.unregistration_count)
        yield single(EXPIRED, table.expired_count)
        yield single(LOST, table.lost_count)


NAMESRV_METRICS = (*TableMetrics.metrics, *ConnectionMetrics.metrics, *AuditMetrics.metrics)


class NamesrvMetrics:
    """All figures of a name server."""

    def __init__(self, server: NameServer) -> None:
        self._server = server

    @property
    def budget(self) -> MemoryBudget:
        """Return the process's memory budget, which counts scrapes too."""
        return self._server.server.budget

    def labels(self) -> dict[str, str]:
        return parse_labels(self._server.config.metrics_label) | {
            "node_id": self._server.address,
            "node_type": NODE_TYPE,
        }

    def collectors(self) -> list[Collector]:
        return [
            TableMetrics(self._server),
            ConnectionMetrics(self._server.server),
            AuditMetrics(self._server.audit),
        ]
