"""RuntimeInfo: the table that ``brokerStatus``, ``clusterList`` and dashboards read (request code 28).

Keys and formats are RocketMQ's. A key without a counterpart here (thread pools, rates of the timer wheel) has its idle
value, because the tools fail or show blanks for a missing key.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from pymq import __version__
from pymq.broker.runtime import Runtime
from pymq.model.names import SCHEDULE_TOPIC
from pymq.net.descriptors import descriptor_limit, open_count
from pymq.net.interpreter import interpreter_text
from pymq.units import format_bytes
from pymq.wire.codes import VERSION_5_3_3

if TYPE_CHECKING:
    from pymq.broker.messages.delays import DelayService
    from pymq.broker.messages.writer import Writer
    from pymq.broker.report.replication_status import StatusReport
    from pymq.broker.stats.stats_manager import StatsManager
    from pymq.broker.timers.timer_service import TimerService
    from pymq.store.store import MessageStore

_POOLS = ("send", "pull", "litePull", "query", "ack")
FILES_COUNTED_EVERY_MS = 1000
_NO_POOL_BUFFER = 2**31 - 1
_LATENCY_BUCKETS = (
    *("<=0ms", "0~10ms", "10~50ms", "50~100ms", "100~200ms", "200~500ms", "500ms~1s"),
    *("1~2s", "2~3s", "3~4s", "4~5s", "5~10s", "10s~"),
)


class RuntimeInfo:
    """Collects the figures of one broker."""

    def __init__(
        self,
        runtime: Runtime,
        *,
        store: MessageStore,
        stats: StatsManager,
        writer: Writer,
        delays: DelayService,
        timers: TimerService,
        replication: StatusReport,
    ) -> None:
        self._config = runtime.config
        self._clock = runtime.clock
        self._files = runtime.files
        self._store = store
        self._stats = stats
        self._writer = writer
        self._delays = delays
        self._timers = timers
        self._replication = replication
        self._files_counted_ms: int | None = None
        self._file_count: int | None = None

    def table(self) -> dict[str, str]:
        """Return name -> text of every figure."""
        result = {
            "brokerActive": "true",
            "pymqPermission": str(self._config.broker_permission),
            "brokerVersion": str(VERSION_5_3_3),
            "brokerVersionDesc": "V5_3_3",
            "bootTimestamp": str(self._stats.boot_ms),
            "startAcceptSendRequestTimeStamp": "0",
            "runtime": _running_text(self._stats.running_ms()),
        }
        result.update(self._traffic())
        result.update(self._disk())
        result.update(self._delay_levels())
        result.update(self._replication.figures())
        result.update(self._stats.filters.figures())
        result.update(_idle_figures())
        result.update(self._timer_progress())
        result.update(self._process())
        config = self._config
        if config.is_worker:
            result |= {"pymqMachine": config.worker_machine, "pymqWorker": str(config.worker_number)}
            result["pymqWorkers"] = str(config.worker_count)
        return result

    def _process(self) -> dict[str, str]:
        """Return PyMQ's own keys about the process. Open files are counted once a second at most."""
        now_ms = self._clock.monotonic_ms()
        if self._files_counted_ms is None or now_ms - self._files_counted_ms >= FILES_COUNTED_EVERY_MS:
            self._file_count, self._files_counted_ms = open_count(), now_ms
        result = {"pymqVersion": __version__, "pymqTimeMs": str(self._clock.now_ms()), "pymqPython": interpreter_text()}
        if self._file_count is not None:
            result |= {"pymqOpenFiles": str(self._file_count), "pymqOpenFilesMax": str(descriptor_limit())}
        return result

    def _traffic(self) -> dict[str, str]:
        stats, totals = self._stats, self._stats.totals()
        found = stats.rates(attrgetter("got_calls"), totals)
        missed = stats.rates(attrgetter("missed"), totals)
        average = totals.put_bytes / totals.put if totals.put else 0.0
        return {
            "putTps": _rates_text(stats.rates(attrgetter("put"), totals)),
            "getTransferredTps": _rates_text(stats.rates(attrgetter("got"), totals)),
            "getFoundTps": _rates_text(found),
            "getMissTps": _rates_text(missed),
            "getTotalTps": _rates_text((found[0] + missed[0], found[1] + missed[1], found[2] + missed[2])),
            "putMessageTimesTotal": str(totals.put),
            "putMessageSizeTotal": str(totals.put_bytes),
            "putMessageAverageSize": str(average),
            "filterErrorTimes": str(stats.filter_errors),
            "putMessageFailedTimes": str(self._writer.failed_put_count),
            "msgPutTotalYesterdayMorning": str(stats.put_yesterday_morning),
            "msgPutTotalTodayMorning": str(stats.put_today_morning),
            "msgPutTotalTodayNow": str(totals.put),
            "msgGetTotalYesterdayMorning": str(stats.got_yesterday_morning),
            "msgGetTotalTodayMorning": str(stats.got_today_morning),
            "msgGetTotalTodayNow": str(totals.got),
        }

    def _disk(self) -> dict[str, str]:
        store, root = self._store, self._config.store_path_root_dir
        figures, refusal = store.figures, store.refusal
        ratio = store.used_ratio()
        total, free = self._files.total_bytes(root), self._files.free_bytes(root)
        return {
            "commitLogMinOffset": str(store.physical_min_offset),
            "commitLogMaxOffset": str(store.physical_max_offset),
            "commitLogDiskRatio": str(ratio),
            f"commitLogDiskRatio_{root}/commitlog": str(ratio),
            "consumeQueueDiskRatio": str(ratio),
            "commitLogDirCapacity": f"Total : {format_bytes(total)}, Free : {format_bytes(free)}.",
            "earliestMessageTimeStamp": str(store.earliest_store_time()),
            # PyMQ's own keys: the problems that an operator should know, empty when all is well; why the store takes no
            # messages now, empty while it does; then counters.
            "storeProblems": "; ".join(store.problems),
            "storeRefusal": refusal.why if refusal is not None else "",
            "storeRefusedBy": refusal.by if refusal is not None else "",
            "corruptMessages": str(figures.corrupt_message_count),
            "scrubbedBytes": str(figures.scrubbed_bytes),
            "scrubPasses": str(figures.scrub_pass_count),
            "scrubDamagedPlaces": str(figures.scrub_damaged_count),
            "coldSegments": str(figures.cold_segment_count),
            "remainHowManyDataToFlush": format_bytes(store.physical_max_offset - store.synced_offset),
        }

    def _timer_progress(self) -> dict[str, str]:
        return {
            "timerReadBehind": str(self._timers.behind_ms // 1000),
            "timerOffsetBehind": str(self._timers.behind_count),
            "timerCongestNum": str(sum(self._timers.counts.waiting.values())),
        }

    def _delay_levels(self) -> dict[str, str]:
        return {
            f"scheduleMessageOffset_{level}": f"{offset},{self._store.max_offset(SCHEDULE_TOPIC, level - 1)}"
            for level, offset in self._delays.offsets().items()
        }


def _idle_figures() -> dict[str, str]:
    result = {
        "dispatchBehindBytes": "0",
        "dispatchMaxBuffer": "0",
        "pageCacheLockTimeMills": "0",
        "putMessageEntireTimeMax": "0",
        "getMessageEntireTimeMax": "0",
        "putMessageDistributeTime": " ".join(f"[{bucket}]:0" for bucket in _LATENCY_BUCKETS),
        "putLatency99": "0",
        "putLatency999": "0",
        "remainTransientStoreBufferNumbs": str(_NO_POOL_BUFFER),
        "timerEnqueueTps": "0.0",
        "timerDequeueTps": "0.0",
        "EndTransactionQueueSize": "0",
        "EndTransactionThreadPoolQueueCapacity": "0",
    }
    for pool in _POOLS:
        result[f"{pool}ThreadPoolQueueSize"] = "0"
        result[f"{pool}ThreadPoolQueueCapacity"] = "0"
        result[f"{pool}ThreadPoolQueueHeadWaitTimeMills"] = "0"
    return result


def _rates_text(rates: tuple[float, float, float]) -> str:
    return " ".join(str(rate) for rate in rates)


def _running_text(duration_ms: int) -> str:
    seconds = duration_ms // 1000
    days, hours, minutes = seconds // 86_400, seconds // 3600 % 24, seconds // 60 % 60
    return f"[ {days} days, {hours} hours, {minutes} minutes, {seconds % 60} seconds ]"
