"""Operators' requests about the broker: configuration (25, 26, 9110), figures (28, 315, 321), cleaning (306, 329)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING

from pymq.broker.messages.message_filter import MessageFilter
from pymq.broker.messages.reader import EVALUATION_MS
from pymq.broker.metadata.late import answer_when_saved
from pymq.broker.metadata.metadata import Metadata
from pymq.broker.report.runtime_info import RuntimeInfo
from pymq.broker.runtime import Runtime
from pymq.config.runtime import BusyError, Change, RuntimeSettings, StaleError
from pymq.errors import ConfigError, PymqError, Refusal
from pymq.wire.admin_text import encode_in_steps
from pymq.wire.bodies_admin import (
    ConsumeQueueAnswer,
    ConsumeQueueEntry,
    StatsData,
    StatsWindow,
    encode_admin_body,
)
from pymq.wire.bodies_client import SubscriptionData, encode_body
from pymq.wire.bodies_route import KvTable
from pymq.wire.codes import ResponseCode
from pymq.wire.command import Command
from pymq.wire.dispatch import Peer
from pymq.wire.headers.admin import (
    ConfigAnswer,
    GetConfigHeader,
    QueryConsumeQueueHeader,
    StatsDataHeader,
    UpdateConfigHeader,
)
from pymq.wire.reply import Reply

if TYPE_CHECKING:
    from pymq.broker.messages.expressions import Expressions
    from pymq.broker.messages.waiting_answers import WaitingAnswers
    from pymq.broker.messages.writer import Writer
    from pymq.broker.stats.stats_manager import RateWindow, StatsManager
    from pymq.broker.upkeep.cleaner import Cleaner
    from pymq.broker.work.sliced_work import Steps
    from pymq.store.store import MessageStore

log = logging.getLogger(__name__)

QUEUE_ENTRY_COUNT_MAX = 1000
STATISTICS_AT_ONCE = 100  # that are read before the next rest: some 1 ms
QUEUES_AT_ONCE = 100  # that are deleted before the next rest: some 4 ms


class BrokerAdminHandlers:
    """Shows the broker's state, and changes settings while it runs."""

    def __init__(
        self,
        runtime: Runtime,
        *,
        metadata: Metadata,
        runtime_settings: RuntimeSettings,
        on_settings: Callable[[Collection[str]], None],
        store: MessageStore,
        expressions: Expressions,
        stats: StatsManager,
        writer: Writer,
        waiting_answers: WaitingAnswers,
        cleaner: Cleaner,
        runtime_info: RuntimeInfo,
    ) -> None:
        self._sliced_work = runtime.sliced_work
        self._config = runtime.config
        self._runtime_settings = runtime_settings
        self._on_settings = on_settings
        self._clock = runtime.clock
        self._store = store
        self._topics = metadata.topics
        self._clients = metadata.clients
        self._cursors = metadata.cursors
        self._expressions = expressions
        self._stats = stats
        self._writer = writer
        self._waiting_answers = waiting_answers
        self._cleaner = cleaner
        self._runtime_info = runtime_info

    def update_config(self, request: Command, header: UpdateConfigHeader, peer: Peer) -> Reply | None:
        """Change settings that can change at run time, all or none: until the broker stops, or kept beyond that."""
        settings = self._runtime_settings
        try:
            change = settings.plan(
                request.body, forget=header.forget, is_kept=header.persist, version=header.expected_version
            )
        except ConfigError as error:
            log.warning("%s may not change the configuration: %s", peer.address, error)
            raise Refusal(_refusal_code(error), str(error)) from error
        if change.kept is None:
            return self._apply(change, peer)
        settings.save(change, answer_when_saved(request, peer, lambda: self._apply(change, peer)))
        return None

    def _apply(self, change: Change, peer: Peer) -> Reply:
        changed = self._runtime_settings.apply(change)
        if changed:
            text = ", ".join(f"{name}={value}" for name, value in changed.items())
            log.info("%s changed the configuration%s: %s", peer.address, " and kept it" * change.is_kept, text)
            self._on_settings(changed)
            self._waiting_answers.release_confirmed()  # other answers can go now, or fewer sends are taken
        return Reply()

    def plan_config(self, request: Command, header: UpdateConfigHeader, peer: Peer) -> Reply:
        """Say which segments retention would delete after a change of settings, and change nothing."""
        try:
            change = self._runtime_settings.plan(request.body, forget=header.forget)
            changed = self._config.with_runtime_changes(change.values, forget=change.forget)
        except ConfigError as error:
            raise Refusal(_refusal_code(error), str(error)) from error
        return Reply(body=encode_admin_body(self._cleaner.plan(changed)))

    def config(self, request: Command, header: GetConfigHeader, peer: Peer) -> Reply:
        """Return all settings as properties text, with secrets masked."""
        settings = self._runtime_settings
        answer = ConfigAnswer(version=settings.version)
        if header.origins:
            changeable = ";".join(self._config.names_at_runtime())
            answer = ConfigAnswer(version=settings.version, origins=settings.origins(), changeable=changeable)
        return Reply(ext=answer, body=settings.as_text().encode())

    def runtime_info(self, request: Command, header: None, peer: Peer) -> Reply:
        """Return the broker's figures."""
        return Reply(body=encode_body(KvTable(table=self._runtime_info.table())))

    def stats_data(self, request: Command, header: StatsDataHeader, peer: Peer) -> Reply | None:
        """Return one statistic over the last minute, hour and day, for one key or for all."""
        if header.pymq_all:
            return self._sliced_work.answer(request, peer, self._all_stats(header.stats_name))
        found = self._stats.view(header.stats_name, header.stats_key)
        if found is None:
            raise Refusal(ResponseCode.SYSTEM_ERROR, f"The stats <{header.stats_name}> <{header.stats_key}> not exist")
        return Reply(body=encode_admin_body(_as_data(found)))

    def _all_stats(self, name: str) -> Steps[Reply]:
        found: dict[str, StatsData] = {}
        for number, key in enumerate(self._stats.keys(name)):
            windows = self._stats.view(name, key)
            if windows is not None and windows[-1].total:
                found[key] = _as_data(windows)
            if number % STATISTICS_AT_ONCE == 0:
                yield
        return Reply(body=(yield from encode_in_steps(StatsData(pymq_keys=found))))

    def queue_entries(self, request: Command, header: QueryConsumeQueueHeader, peer: Peer) -> Reply:
        """Return raw units of a consume queue, and for each whether a group's filter accepts it."""
        topic = self._topics.require(header.topic)
        if not 0 <= header.queue_id < topic.queue_count:
            raise Refusal(
                ResponseCode.INVALID_PARAMETER,
                f"queue {header.queue_id} of topic {header.topic} does not exist: use 0 to {topic.queue_count - 1}",
            )
        low = self._store.min_offset(header.topic, header.queue_id)
        high = self._store.max_offset(header.topic, header.queue_id)
        answer = ConsumeQueueAnswer(min_queue_index=low, max_queue_index=high, queue_data=[])
        subscription: SubscriptionData | None = None
        if header.consumer_group:
            subscription = self._clients.subscription(header.consumer_group, header.topic)
        answer.subscription_data = subscription
        message_filter = MessageFilter()
        if subscription is not None:
            message_filter = self._expressions.message_filter(subscription.expression_type, subscription.sub_string)
        first = max(low, high + header.index if header.index < 0 else header.index)
        last = min(high, first + max(0, min(header.count, QUEUE_ENTRY_COUNT_MAX)))
        queue = self._store.queue_view(header.topic, header.queue_id)
        if queue is not None:
            answer.queue_data = self._entries((queue.unit(offset) for offset in range(first, last)), message_filter)
        return Reply(body=encode_admin_body(answer))

    def _entries(self, units: Iterable[tuple[int, int, int]], message_filter: MessageFilter) -> list[ConsumeQueueEntry]:
        """Return entries for the first units: as many as can be filtered in EVALUATION_MS."""
        end_ms = self._clock.monotonic_ms() + EVALUATION_MS
        entries: list[ConsumeQueueEntry] = []
        for unit in units:
            entries.append(self._entry(unit, message_filter))
            if message_filter.accept is not None and self._clock.monotonic_ms() >= end_ms:
                break
        return entries

    def _entry(self, unit: tuple[int, int, int], message_filter: MessageFilter) -> ConsumeQueueEntry:
        physical_offset, size_bytes, code = unit
        fits = message_filter.codes is None or code in message_filter.codes
        if fits and message_filter.accept is not None:
            try:
                fits = message_filter.accept(self._store.record_at(physical_offset))
            except PymqError:  # deleted with its segment, or damaged: no consumer gets it
                fits = False
        return ConsumeQueueEntry(physic_offset=physical_offset, physic_size=size_bytes, tags_code=code, eval=fits)

    def clean_expired_queues(self, request: Command, header: None, peer: Peer) -> Reply | None:
        """Remove queues whose messages are all deleted, when no topic has them any more.

        Java's broker also removes queues that a topic still has. Their offsets then begin at 0 again, below what
        consumers have committed.
        """
        return self._sliced_work.answer(request, peer, self._clean_expired(peer))

    def _clean_expired(self, peer: Peer) -> Steps[Reply]:
        expired = [queue for queue in self._store.expired_queues() if not self._is_in_use(*queue)]
        for start in range(0, len(expired), QUEUES_AT_ONCE):
            self._writer.commit()
            batch = expired[start : start + QUEUES_AT_ONCE]
            gone = [queue for queue in batch if self._store.is_expired(*queue) and not self._is_in_use(*queue)]
            self._store.delete_queues(gone)
            for topic, queue_id in gone:
                if not self._config.is_slave:  # a slave's offsets are its master's
                    self._cursors.forget_queue(topic, queue_id)
                log.info("%s removed the expired queue %d of %s", peer.address, queue_id, topic)
            yield
        return Reply()

    def _is_in_use(self, topic: str, queue_id: int) -> bool:
        config = self._topics.get(topic)
        return config is not None and queue_id < config.queue_count

    def delete_expired_segments(self, request: Command, header: None, peer: Peer) -> Reply:
        """Start to delete segments that are old enough, at any hour. The answer does not wait for the end."""
        log.info("%s asks for old segments to be deleted", peer.address)
        self._cleaner.delete_expired()
        return Reply()


def _refusal_code(error: ConfigError) -> int:
    if isinstance(error, BusyError):
        return ResponseCode.SYSTEM_BUSY
    return ResponseCode.SYSTEM_ERROR if isinstance(error, StaleError) else ResponseCode.NO_PERMISSION


def _as_data(windows: tuple[RateWindow, RateWindow, RateWindow]) -> StatsData:
    minute, hour, day = map(_window, windows)
    return StatsData(stats_minute=minute, stats_hour=hour, stats_day=day)


def _window(window: RateWindow) -> StatsWindow:
    return StatsWindow(sum=window.total, tps=round(window.per_second, 3), avgpt=round(window.per_call, 3))
