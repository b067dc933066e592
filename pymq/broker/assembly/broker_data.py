"""BrokerData: what a broker keeps, for the groups of parts that work on it."""

from __future__ import annotations

from dataclasses import dataclass

from pymq.broker.metadata.metadata import Metadata
from pymq.broker.stats.stats_manager import StatsManager
from pymq.store.store import MessageStore


@dataclass(frozen=True, slots=True)
class BrokerData:
    """The messages, the tables, and the counts of what came and went."""

    store: MessageStore
    metadata: Metadata
    stats: StatsManager
