"""The filter server's figures as a table of names and values, what ``GET_BROKER_RUNTIME_INFO`` answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pymq.filterserver.classes import CARRIED

if TYPE_CHECKING:
    from pymq.filterserver.broker_link import BrokerLink
    from pymq.filterserver.classes import ClassTable
    from pymq.filterserver.workers import WorkerPool


def figures(link: BrokerLink, classes: ClassTable, workers: WorkerPool, pending_count: int) -> dict[str, str]:
    """Of the server, then of each group and topic: messages by outcome and the time (ms) its filter took."""
    table = {
        "role": "filter-server",
        "broker": link.broker,
        "brokerName": link.broker_name,
        "registered": "true" if link.is_registered else "false",
        "classCount": str(len(classes.all())),
        "pendingRequests": str(pending_count),
        "workerCount": str(workers.count),
        "workerRestarts": str(workers.restart_count),
    }
    for known in classes.all():
        stats = known.stats
        # A group may have several classes that its pulls carry for a topic: their numbers tell them apart.
        number = f"#{known.filter.filter_id}" if known.version == CARRIED else ""
        where = f"filter.{known.group}.{known.topic}{number}"
        table |= {
            f"{where}.name": known.text.name,
            f"{where}.matched": str(stats.matched),
            f"{where}.skipped": str(stats.skipped),
            f"{where}.errors": str(stats.errors),
            f"{where}.batches": str(stats.batches),
            f"{where}.timeMs": str(stats.time_us // 1000),
        }
    return table
