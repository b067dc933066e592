"""The filter server's figures as a table of names and values, the answer to ``GET_BROKER_RUNTIME_INFO``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pymq.filterserver.classes import CARRIED

if TYPE_CHECKING:
    from pymq.filterserver.broker_link import BrokerLink
    from pymq.filterserver.classes import ClassTable
    from pymq.filterserver.workers import WorkerPool


def figures(link: BrokerLink, classes: ClassTable, workers: WorkerPool, pending_count: int) -> dict[str, str]:
    """Return the server's figures, then those of each group and topic: messages by outcome, the filter's time in ms."""
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
        # The filter ids tell apart the several classes that a group's pulls may carry for a topic.
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
