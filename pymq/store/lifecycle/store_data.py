"""StoreData: the data of a store and what every part of a store needs to work with them, as one value."""

from __future__ import annotations

from dataclasses import dataclass

from pymq.clock import Clock
from pymq.store.index.index_service import IndexService
from pymq.store.integrity.digests import Digests
from pymq.store.light.light_queues import LightQueues
from pymq.store.log.commit_log import CommitLog
from pymq.store.queue.queue_table import QueueTable
from pymq.store.settings import StoreSettings


@dataclass(frozen=True, slots=True)
class StoreData:
    """The log, all queues, the key index and the block digests of one store, with its clock and settings.

    ``lights`` are the queues of lite topics.

    ``index`` and ``digests`` are None where the settings turn them off.
    """

    log: CommitLog
    queues: QueueTable
    lights: LightQueues
    index: IndexService | None
    digests: Digests | None
    clock: Clock
    settings: StoreSettings
