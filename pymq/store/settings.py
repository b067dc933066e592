"""Sizes, intervals and limits of a store, with RocketMQ's defaults."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pymq.model.layout import BATCH_UNIT_SIZE_BYTES, UNIT_SIZE_BYTES
from pymq.model.names import SCHEDULE_TOPIC

DELAY_LEVELS = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
_DELAY_UNITS_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def parse_delay_levels(text: str) -> tuple[int, ...]:
    """``"1s 5s"`` -> (1000, 5000) ms; level 1 is the first. Raises ValueError."""
    return tuple(int(word[:-1]) * _DELAY_UNITS_MS[word[-1]] for word in text.split())


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    """What an operator may set; the comment behind a field is its key in broker.conf."""

    segment_size_bytes: int = 1 << 30  # mappedFileSizeCommitLog
    queue_file_size_bytes: int = 6_000_000  # mappedFileSizeConsumeQueue
    batch_queue_file_size_bytes: int = 13_800_000  # mapperFileSizeBatchConsumeQueue
    index_slot_count: int = 5_000_000  # maxHashSlotNum
    index_entry_count: int = 20_000_000  # maxIndexNum
    index_enabled: bool = True  # messageIndexEnable
    check_crc_on_recover: bool = True  # checkCRCOnRecover
    # Has a start look for what the disk lost at the log's end (pymq.store.lifecycle.lost_end); it is called with a text
    # before the log ends there. Only for a replica: others have the rest.
    on_lost_end: Callable[[str], None] | None = None
    query_count_max: int = 64  # maxMsgsNumBatch
    filter_scan_bytes: int = 16_000  # maxFilterMessageSize: consume queue bytes read for one filtered pull
    transfer_bytes_in_memory: int = 262_144  # maxTransferBytesOnMessageInMemory
    transfer_count_in_memory: int = 32  # maxTransferCountOnMessageInMemory
    transfer_bytes_on_disk: int = 65_536  # maxTransferBytesOnMessageInDisk
    transfer_count_on_disk: int = 8  # maxTransferCountOnMessageInDisk
    # Log bytes that count as being in memory (accessMessageInMemoryMaxRatio of the machine's RAM). None: all of it,
    # so old data is served with the large limits; a page fault costs less here than another pull.
    in_memory_bytes: int | None = None
    delay_levels_ms: tuple[int, ...] = parse_delay_levels(DELAY_LEVELS)  # messageDelayLevel
    queue_write_interval_ms: Callable[[], int] = lambda: 1000  # flushIntervalConsumeQueue: tails go to the page cache
    checkpoint_interval_ms: int = 10_000  # flushConsumeQueueThoroughInterval, shorter: it bounds an unclean start
    checkpoint_bytes: int = 256 << 20  # log bytes that move the checkpoint early, so that a start reads little more
    queue_tail_bytes: int = 65_536  # a queue's tail is written early when it grows beyond this
    index_batch_count: int = 2048  # records whose keys one tick inserts
    resident_bytes_max: int = 32 << 20  # mapped bytes read before their pages are given back
    open_queue_files_max: int = 256
    digests_enabled: bool = True  # blockDigestEnable
    light_file_entry_count: int = 100_000  # of light queues
    # The table of light queues is saved when so many entries have come since, or a quarter of the number of queues if
    # that is more: a start reads those entries one by one.
    light_table_entry_count: int = 100_000

    def __post_init__(self) -> None:
        # The same rounding as the Java broker's: a queue file holds whole units.
        whole = -(-self.queue_file_size_bytes // UNIT_SIZE_BYTES) * UNIT_SIZE_BYTES
        object.__setattr__(self, "queue_file_size_bytes", whole)
        whole = -(-self.batch_queue_file_size_bytes // BATCH_UNIT_SIZE_BYTES) * BATCH_UNIT_SIZE_BYTES
        object.__setattr__(self, "batch_queue_file_size_bytes", whole)

    def schedule_deliver_ms(self, level: int, store_timestamp_ms: int) -> int:
        """When a message of a delay level is due; an unknown level counts as one second."""
        level = min(level, len(self.delay_levels_ms))
        return store_timestamp_ms + (self.delay_levels_ms[level - 1] if level > 0 else 1000)


def is_schedule_topic(topic: str) -> bool:
    """True for the topic whose consume queue holds delivery times instead of tag codes."""
    return topic == SCHEDULE_TOPIC
