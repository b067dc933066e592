"""The store: sizes, progress, flushes, problems, and what its start found.

``rocketmq_storage_…`` are RocketMQ's (Java: DefaultStoreMetricsManager), with its two labels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pymq.broker.assembly.parts import BrokerParts
from pymq.metrics.family import PAUSE, Family, Metric, Reading, counter, gauge, histogram, single
from pymq.store.store import RecoveryReport

_KIND = ("storage_type", "storage_medium")
_LOCAL_DISK = ("local", "disk")

SIZE = gauge("rocketmq_storage_size_bytes", "Used bytes of the disk with the store.", *_KIND, unit="bytes")
FLUSH_BEHIND = gauge(
    "rocketmq_storage_flush_behind_bytes", "Log bytes not yet forced to the disk.", *_KIND, unit="bytes"
)
DISPATCH_BEHIND = gauge(
    "rocketmq_storage_dispatch_behind_bytes", "Log bytes whose messages are in no queue yet.", *_KIND, unit="bytes"
)
RESERVE_TIME = gauge(
    "rocketmq_storage_message_reserve_time_milliseconds", "Age of the oldest message.", *_KIND, unit="milliseconds"
)
LOG_START = gauge("pymq_store_log_start_bytes", "Physical offset at which the log begins.", unit="bytes")
LOG_END = gauge("pymq_store_log_end_bytes", "Physical offset at which the log ends.", unit="bytes")
LOG_SYNCED = gauge("pymq_store_log_synced_bytes", "Physical offset up to which the log is on the disk.", unit="bytes")
SEGMENTS = gauge("pymq_store_segments", "Segments of the log.")
COLD_SEGMENTS = gauge("pymq_store_cold_segments", "Segments that are kept compressed.")
QUEUES = gauge("pymq_store_queues", "Queues that have or had messages.")
LITE_TOPICS = gauge("pymq_store_lite_topics", "Lite topics of all parents, with messages or until lately.")
APPENDED = counter("pymq_store_messages_total", "Messages that were ever put into queues: the sum of the queues' ends.")
DISK_SIZE = gauge("pymq_store_disk_bytes", "Size of the disk with the store.", unit="bytes")
DISK_FREE = gauge("pymq_store_disk_free_bytes", "Free bytes of the disk with the store.", unit="bytes")
IS_WRITABLE = gauge("pymq_store_writable", "1 while the store takes messages.")
PROBLEMS = gauge("pymq_store_problems", "Problems that `pymq broker status` and brokerStatus show now.")
CORRUPT = counter("pymq_store_corrupt_messages_total", "Damaged messages, which are refused.")
MENDED = counter("pymq_store_mended_units_total", "Damaged queue units, which were made again from the log.")
SCRUBBED = counter("pymq_store_scrubbed_bytes_total", "Bytes read again to find damage early.", unit="bytes")
SCRUB_PASSES = counter("pymq_store_scrub_passes_total", "Times that all sealed segments were read again.")
SCRUB_DAMAGED = gauge("pymq_store_scrub_damaged_places", "Damaged places that scrubbing found.")
FLUSHES = histogram(
    "pymq_store_flush_seconds", "Time of one flush of the log to the disk, in whole milliseconds.", unit="seconds"
)
FLUSH_FAILURES = counter("pymq_store_flush_failures_total", "Flushes that failed.")
START_CLEAN = gauge("pymq_store_recovery_clean", "1 when the stop before this start was clean.")
START_READ = gauge("pymq_store_recovery_read_bytes", "Log bytes that the recovery read.", unit="bytes")
START_TRUNCATED = gauge(
    "pymq_store_recovery_truncated_bytes", "Log bytes that the recovery truncated as torn.", unit="bytes"
)
START_DAMAGED = gauge("pymq_store_recovery_damaged_places", "Damaged places in the log that the recovery skipped.")

QUEUES_AT_ONCE = 2000


class StorageMetrics:
    """The figures of a store and its flusher."""

    metrics = (
        *(SIZE, FLUSH_BEHIND, DISPATCH_BEHIND, RESERVE_TIME, LOG_START, LOG_END, LOG_SYNCED, SEGMENTS, COLD_SEGMENTS),
        *(QUEUES, LITE_TOPICS, APPENDED, DISK_SIZE, DISK_FREE, IS_WRITABLE, PROBLEMS, CORRUPT, MENDED, SCRUBBED),
        *(
            SCRUB_PASSES,
            SCRUB_DAMAGED,
            FLUSHES,
            FLUSH_FAILURES,
            START_CLEAN,
            START_READ,
            START_TRUNCATED,
            START_DAMAGED,
        ),
    )

    def __init__(self, parts: BrokerParts, recovery: Callable[[], RecoveryReport | None]) -> None:
        self._parts = parts
        self._recovery = recovery

    def collect(self) -> Iterator[Family | None]:
        yield from self._log()
        yield from self._disk()
        yield from self._queues()
        yield from self._health()
        flusher = self._parts.messages.flusher
        yield flusher.times.family(FLUSHES)
        yield single(FLUSH_FAILURES, flusher.failure_count)
        report = self._recovery()
        if report is not None:
            yield single(START_CLEAN, report.clean)
            yield single(START_READ, report.bytes_scanned)
            yield single(START_TRUNCATED, report.truncated_bytes)
            yield single(START_DAMAGED, len(report.damaged))

    def _log(self) -> Iterator[Family]:
        store, end = self._parts.store, self._parts.store.physical_max_offset
        yield _local(FLUSH_BEHIND, max(0, end - store.synced_offset))
        yield _local(DISPATCH_BEHIND, max(0, end - store.dispatched_end))
        oldest_ms = store.earliest_store_time()
        if oldest_ms > 0:
            yield _local(RESERVE_TIME, max(0, self._parts.clock.now_ms() - oldest_ms))
        yield single(LOG_START, store.physical_min_offset)
        yield single(LOG_END, end)
        yield single(LOG_SYNCED, store.synced_offset)
        figures = store.figures
        yield single(SEGMENTS, figures.segment_count)
        yield single(COLD_SEGMENTS, figures.cold_segment_count)

    def _disk(self) -> Iterator[Family]:
        parts = self._parts
        size = parts.runtime.files.total_bytes(parts.config.store_path_root_dir)
        free = parts.runtime.files.free_bytes(parts.config.store_path_root_dir)
        yield _local(SIZE, max(0, size - free))
        yield single(DISK_SIZE, size)
        yield single(DISK_FREE, free)

    def _queues(self) -> Iterator[Family | None]:
        count = messages = 0
        for count, queue in enumerate(self._parts.store.queue_views(), 1):
            messages += queue.max_offset
            if count % QUEUES_AT_ONCE == 0:
                yield PAUSE
        yield single(QUEUES, count)
        yield single(LITE_TOPICS, self._parts.store.lights.count)
        yield single(APPENDED, messages)

    def _health(self) -> Iterator[Family]:
        store, figures = self._parts.store, self._parts.store.figures
        yield single(IS_WRITABLE, store.is_writable)
        yield single(PROBLEMS, len(store.problems))
        yield single(CORRUPT, figures.corrupt_message_count)
        yield single(MENDED, figures.mended_unit_count)
        if store.settings.digests_enabled:
            yield single(SCRUBBED, figures.scrubbed_bytes)
            yield single(SCRUB_PASSES, figures.scrub_pass_count)
            yield single(SCRUB_DAMAGED, figures.scrub_damaged_count)


def _local(metric: Metric, value: float) -> Family:
    return Family(metric, (Reading(_LOCAL_DISK, value),))
