"""A filter server's figures for Prometheus: its workers, its broker, and the work of each group's filters."""

from __future__ import annotations

from collections.abc import Iterator

import pymq
from pymq.filterserver.server import FilterServer
from pymq.metrics.audit import AuditMetrics
from pymq.metrics.connections import ConnectionMetrics
from pymq.metrics.family import Collector, Family, Reading, counter, gauge, single
from pymq.metrics.filters import FILTER_METRICS, FilterWork, filter_families
from pymq.net.memory_budget import MemoryBudget

NODE_TYPE = "filter-server"

INFO = gauge(
    "pymq_filter_server_info",
    "Always 1; the labels say which version runs for which broker.",
    *("pymq_version", "broker", "broker_name"),
)
REGISTERED = gauge("pymq_filter_server_registered", "1 while this server is registered at its broker.")
CLASSES = gauge("pymq_filter_server_classes", "Compiled filters of groups.")
PENDING = gauge("pymq_filter_server_pending_requests", "Requests that wait for their answer.")
WORKERS = gauge("pymq_filter_server_workers", "Worker processes that filters may run in.")
RUNNING = gauge("pymq_filter_server_running_workers", "Worker processes that run; each starts when it is first needed.")
RESTARTS = counter(
    "pymq_filter_server_worker_restarts_total", "Worker processes that died or were killed, and were replaced."
)
KILLS = counter(
    "pymq_filter_server_worker_kills_total", "Worker processes that were killed because they took too long."
)
BATCHES = counter("pymq_filter_server_batches_total", "Batches of messages that workers filtered.")


class WorkMetrics:
    """The figures of one filter server's work."""

    metrics = (INFO, REGISTERED, CLASSES, PENDING, WORKERS, RUNNING, RESTARTS, KILLS, BATCHES, *FILTER_METRICS)

    def __init__(self, server: FilterServer) -> None:
        self._server = server

    def collect(self) -> Iterator[Family]:
        server, workers = self._server, self._server.workers
        classes = server.classes.all()
        yield Family(INFO, (Reading((pymq.__version__, server.settings.broker, server.broker_name), 1),))
        yield single(REGISTERED, server.is_registered)
        yield single(CLASSES, len(classes))
        yield single(PENDING, server.pending_count)
        yield single(WORKERS, workers.count)
        yield single(RUNNING, workers.running_count)
        yield single(RESTARTS, workers.restart_count)
        yield single(KILLS, workers.kill_count)
        yield single(BATCHES, sum(known.stats.batches for known in classes))
        yield from filter_families(self._work())

    def _work(self) -> list[FilterWork]:
        """Return the work by filter: several expressions of one filter for a group and topic count as one."""
        found: dict[tuple[str, str, str], FilterWork] = {}
        for known in self._server.classes.all():
            key, stats = (known.topic, known.group, known.text.name), known.stats
            before = found.get(key, FilterWork(*key, 0, 0, 0, 0.0))
            found[key] = before._replace(
                matched=before.matched + stats.matched,
                skipped=before.skipped + stats.skipped,
                errors=before.errors + stats.errors,
                seconds=before.seconds + stats.time_us / 1e6,
            )
        return list(found.values())


FILTER_SERVER_METRICS = (*WorkMetrics.metrics, *AuditMetrics.metrics, *ConnectionMetrics.metrics)


class FilterServerMetrics:
    """All figures of a filter server."""

    def __init__(self, server: FilterServer) -> None:
        self._server = server

    @property
    def budget(self) -> MemoryBudget:
        """Return the process's memory budget, which counts scrapes too."""
        return self._server.server.budget

    def labels(self) -> dict[str, str]:
        return {"node_id": self._server.address, "node_type": NODE_TYPE}

    def collectors(self) -> list[Collector]:
        return [
            WorkMetrics(self._server),
            AuditMetrics(self._server.audit),
            ConnectionMetrics(self._server.server),
        ]
