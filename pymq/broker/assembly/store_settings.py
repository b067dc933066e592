"""store_settings: the part of a broker's configuration that its store is opened with."""

from __future__ import annotations

from collections.abc import Callable

from pymq.config import BrokerConfig
from pymq.store.settings import StoreSettings


def store_settings(config: BrokerConfig, *, on_lost_end: Callable[[str], None] | None = None) -> StoreSettings:
    """Return the store's part of a broker's configuration, which is fixed while the store is open.

    ``on_lost_end``: the disk may have lost what it had called synced, and other nodes have it.

    Callers of the store (Reader, QueryHandlers) apply limits that may change at run time; the store has their maxima.
    """
    known = config.settings()

    def highest(name: str) -> int:
        limit = known[name].maximum
        assert limit is not None
        return limit

    return StoreSettings(
        segment_size_bytes=config.mapped_file_size_commit_log_bytes,
        queue_file_size_bytes=config.mapped_file_size_consume_queue_bytes,
        batch_queue_file_size_bytes=config.mapper_file_size_batch_consume_queue_bytes,
        index_slot_count=config.max_hash_slot_num,
        index_entry_count=config.max_index_num,
        index_enabled=config.message_index_enable,
        on_lost_end=on_lost_end,
        digests_enabled=config.block_digest_enable,
        query_count_max=highest("maxMsgsNumBatch"),
        transfer_bytes_in_memory=highest("maxTransferBytesOnMessageInMemory"),
        transfer_count_in_memory=highest("maxTransferCountOnMessageInMemory"),
        queue_write_interval_ms=lambda: config.flush_interval_consume_queue_ms,
        delay_levels_ms=tuple(config.delay_level_ms.values()),
    )
