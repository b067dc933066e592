"""What a broker does again and again: one list for each role, run by jobs on the event loop."""

from __future__ import annotations

from pymq.broker.parts import BrokerParts
from pymq.broker.replication.slave.ha_client import TICK_PERIOD_MS as HA_CLIENT_TICK_PERIOD_MS
from pymq.broker.replication.tail_recovery.unsynced_replicas import TICK_PERIOD_MS as TAIL_TICK_PERIOD_MS
from pymq.broker.upkeep.jobs import Job
from pymq.broker.upkeep.problem_log import ProblemLog

TICK_PERIOD_MS = 100
SLOW_TICK_PERIOD_MS = 1000
HA_CLIENT_JOB = "link to the master"


def periodic_work(parts: BrokerParts) -> list[Job]:
    """Of these parts in their role."""
    return [*_shared_work(parts), *(_master_work(parts) if parts.role.is_master else _slave_work(parts))]


def _shared_work(parts: BrokerParts) -> list[Job]:
    return [
        Job("parked pulls", TICK_PERIOD_MS, parts.pulls.long_polls.tick),
        Job("store housekeeping", TICK_PERIOD_MS, parts.store.tick),
        Job("late answers", TICK_PERIOD_MS, parts.writer.tick),
        Job("flush", parts.config.flush_interval_commit_log_ms, parts.flusher.tick),
        Job("retention", TICK_PERIOD_MS, parts.cleaner.tick),
        Job("old segments", TICK_PERIOD_MS, parts.maintenance.tick),
        Job("store problems", SLOW_TICK_PERIOD_MS, ProblemLog(parts.store).tick),
        Job("topics", SLOW_TICK_PERIOD_MS, parts.topics.tick),
        Job("groups", SLOW_TICK_PERIOD_MS, parts.groups.tick),
        Job("cursors", SLOW_TICK_PERIOD_MS, parts.cursors.tick),
        Job("clients", SLOW_TICK_PERIOD_MS, parts.clients.tick),
        Job("filter servers", SLOW_TICK_PERIOD_MS, parts.filter_servers.tick),
        Job("leases", SLOW_TICK_PERIOD_MS, parts.leaser.tick),
        Job("statistics", SLOW_TICK_PERIOD_MS, parts.stats.tick),
        Job("group of brokers", TICK_PERIOD_MS, parts.master_monitor.tick),
    ]


def _master_work(parts: BrokerParts) -> list[Job]:
    assert parts.ha_service is not None
    return [
        Job("delayed delivery", TICK_PERIOD_MS, parts.delays.tick),
        Job("slaves", TICK_PERIOD_MS, parts.ha_service.tick),
        Job("slaves that wait for tables", TICK_PERIOD_MS, parts.table_requests.tick),
        Job("end of the log", TAIL_TICK_PERIOD_MS, parts.tail_recovery.tick),
        Job("write fence", TICK_PERIOD_MS, parts.write_fence.tick),
    ]


def _slave_work(parts: BrokerParts) -> list[Job]:
    assert parts.ha_client is not None and parts.metadata is not None
    return [
        Job(HA_CLIENT_JOB, HA_CLIENT_TICK_PERIOD_MS, parts.ha_client.tick),
        Job("tables of the master", TICK_PERIOD_MS, parts.metadata.tick),
    ]
