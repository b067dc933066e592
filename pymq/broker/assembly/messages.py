"""Messages: the parts that move messages into the store and out of it."""

from __future__ import annotations

from pymq.broker.assembly.broker_data import BrokerData
from pymq.broker.messages.delays import DelayService
from pymq.broker.messages.expressions import Expressions
from pymq.broker.messages.lite_topics import LiteTopics
from pymq.broker.messages.reader import Reader
from pymq.broker.messages.retries import Retries
from pymq.broker.messages.waiting_answers import Copies, WaitingAnswers
from pymq.broker.messages.writer import Writer
from pymq.broker.metadata.config_tables import ConfigTables
from pymq.broker.runtime import Runtime
from pymq.broker.timers.timer_counts import TimerCounts
from pymq.broker.timers.timer_service import TimerService
from pymq.broker.transactions.checks import TransactionChecks
from pymq.broker.transactions.transactions import Transactions
from pymq.broker.upkeep.flusher import Flusher
from pymq.broker.work.jobs import TICK_PERIOD_MS, HastenJob, Job
from pymq.store.timer.timer_store import TimerStore

TIMER_JOB = "timer messages"


class Messages:
    """The parts of the data path by name."""

    def __init__(
        self,
        runtime: Runtime,
        *,
        data: BrokerData,
        config_tables: ConfigTables,
        copies: Copies,
        hasten_job: HastenJob,
        timer_slot_count: int,
    ) -> None:
        """``copies`` says what replication requires of a send."""
        store, metadata, stats = data.store, data.metadata, data.stats
        self._config = runtime.config
        self._store = store
        self.waiting_answers = WaitingAnswers(
            store=store,
            clock=runtime.clock,
            copies=copies,
            sync_timeout_ms=lambda: runtime.config.sync_flush_timeout_ms,
            budget=runtime.budget,
        )
        self.flusher = Flusher(
            store,
            runtime.run_in_thread,
            runtime.schedule_turn_end,
            clock=runtime.clock,
            config=runtime.config,
            waiting_answers=self.waiting_answers,
        )
        self.lites = LiteTopics(runtime, topics=metadata.topics, lights=store.lights)
        self.writer = Writer(
            runtime,
            lites=self.lites,
            store=store,
            request_sync=self.flusher.request,
            copies=copies,
            waiting_answers=self.waiting_answers,
        )
        self.reader = Reader(store, runtime.config, runtime.clock)
        self.expressions = Expressions(config=runtime.config, stats=stats, is_bulk_ready=lambda: store.is_bulk_ready)
        self.retries = Retries(
            runtime,
            metadata=metadata,
            writer=self.writer,
            store=store,
            stats=stats,
        )
        self.delays = DelayService(
            runtime,
            # A delivered message must be on the disk before its delayed original counts as delivered.
            config_tables.saver("delayOffset.json", "offsetTable", lambda: store.sync(log_only=True)),
            store=store,
            writer=self.writer,
            topics=metadata.topics,
        )

        self.transactions = Transactions(
            runtime,
            metadata=metadata,
            store=store,
            writer=self.writer,
            stats=stats,
        )
        self.transaction_checks = TransactionChecks(
            runtime,
            metadata=metadata,
            store=store,
            writer=self.writer,
            transactions=self.transactions,
        )
        self.timers = TimerService(
            runtime,
            TimerStore(
                runtime.files,
                runtime.config.store_path_root_dir,
                segment_bytes=runtime.config.mapped_file_size_timer_log_bytes,
                precision_ms=runtime.config.timer_precision_ms,
                slot_count=timer_slot_count,
            ),
            store=store,
            writer=self.writer,
            topics=metadata.topics,
            counts=TimerCounts(config_tables.saver("timermetrics", "timingCount"), runtime.clock),
            wake_in=lambda delay_ms: hasten_job(TIMER_JOB, delay_ms),
        )

    def jobs(self) -> list[Job]:
        """Return the jobs of the store, the waiting answers and the flusher. The master's side has those
        of delays and transactions."""
        return [
            Job("store housekeeping", TICK_PERIOD_MS, self._store.tick),
            Job("late answers", TICK_PERIOD_MS, self.waiting_answers.tick),
            Job(TIMER_JOB, TICK_PERIOD_MS, self.timers.tick),
            Job("flush", lambda: self._config.flush_interval_commit_log_ms, self.flusher.tick),
        ]

    def stop(self) -> None:
        """Begin no more syncs: another thread is about to close the store."""
        self.flusher.stop()
