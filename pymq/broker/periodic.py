"""What a broker does again and again: one list for each role, run by jobs on the event loop."""

from __future__ import annotations

from pymq.broker.jobs import Job
from pymq.broker.parts import BrokerParts
from pymq.broker.problem_log import ProblemLog
from pymq.broker.replication.lost_tail.tail_holders import TICK_PERIOD_MS as TAIL_TICK_PERIOD_MS
from pymq.broker.replication.slave.link import TICK_PERIOD_MS as LINK_TICK_PERIOD_MS

TICK_PERIOD_MS = 100
SLOW_TICK_PERIOD_MS = 1000
LINK_JOB = "link to the master"


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
        Job("old segments", TICK_PERIOD_MS, parts.caretaker.tick),
        Job("store problems", SLOW_TICK_PERIOD_MS, ProblemLog(parts.store).tick),
        Job("topics", SLOW_TICK_PERIOD_MS, parts.topics.tick),
        Job("groups", SLOW_TICK_PERIOD_MS, parts.groups.tick),
        Job("cursors", SLOW_TICK_PERIOD_MS, parts.cursors.tick),
        Job("clients", SLOW_TICK_PERIOD_MS, parts.clients.tick),
        Job("filter servers", SLOW_TICK_PERIOD_MS, parts.filter_servers.tick),
        Job("leases", SLOW_TICK_PERIOD_MS, parts.leaser.tick),
        Job("statistics", SLOW_TICK_PERIOD_MS, parts.stats.tick),
        Job("group of brokers", TICK_PERIOD_MS, parts.watch.tick),
    ]


def _master_work(parts: BrokerParts) -> list[Job]:
    assert parts.feeds is not None
    return [
        Job("delayed delivery", TICK_PERIOD_MS, parts.delays.tick),
        Job("slaves", TICK_PERIOD_MS, parts.feeds.tick),
        Job("slaves that wait for tables", TICK_PERIOD_MS, parts.copy_requests.tick),
        Job("end of the log", TAIL_TICK_PERIOD_MS, parts.tail.tick),
        Job("freeze", TICK_PERIOD_MS, parts.freeze.tick),
    ]


def _slave_work(parts: BrokerParts) -> list[Job]:
    assert parts.link is not None and parts.metadata is not None
    return [
        Job(LINK_JOB, LINK_TICK_PERIOD_MS, parts.link.tick),
        Job("tables of the master", TICK_PERIOD_MS, parts.metadata.tick),
    ]
