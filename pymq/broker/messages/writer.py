"""Writer: enriches messages, stages them in the store, commits one turn's worth at once and then releases the answers.

An answer to a send never leaves before :meth:`Writer.commit` has put its record into the log file; under SYNC_FLUSH
not before the file is synced and under SYNC_MASTER not before enough slaves have it, unless the message says
WAIT=false. No consumer sees the message earlier. When a commit fails, every held answer becomes a refusal and nothing
is stored.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from pymq.broker.messages.fitting import fitted, slimmed
from pymq.broker.messages.held_answers import AnswerTo, HeldAnswers, hold, refuse, release
from pymq.broker.messages.lite_topics import LiteTopics
from pymq.broker.messages.waiting_answers import Copies, WaitingAnswers
from pymq.broker.runtime import Runtime
from pymq.config.values import SYNC_FLUSH
from pymq.errors import StoreUnavailableError
from pymq.model.draft import Draft
from pymq.model.layout import ADDED_PROPERTIES_MAX_BYTES, PROPERTIES_SIZE_MAX_BYTES
from pymq.model.lite_topics import LIGHT_PROPERTIES
from pymq.model.names import SCHEDULE_TOPIC
from pymq.model.properties import LITE_TOPIC, append_properties, find_property, tags_code_of, without_properties
from pymq.model.record import StoredMessage
from pymq.store.store import MessageStore, Placed
from pymq.wire.codes import ResponseCode

log = logging.getLogger(__name__)

REGION = "DefaultRegion"
_DELAY = b"DELAY"
_WAIT = b"WAIT"
_LITE = LITE_TOPIC.encode() + b"\x01"
_LIGHT_PLACE = b"INNER_MULTI_"
# Shorter properties fit in any case, with the target of a delay.
_PUT_AGAIN_MAX_BYTES = PROPERTIES_SIZE_MAX_BYTES - ADDED_PROPERTIES_MAX_BYTES
# Gets True once staged messages are in the log, False when they were dropped.
CommitListener = Callable[[bool], None]
# Properties of a message whose answer does not wait for the disk: one that the broker stores again itself.
NOT_WAITING = b"WAIT\x01false\x02"


class Companion(Protocol):
    """A part that has something to store with each commit, and must know how it ended."""

    @property
    def is_changed(self) -> bool:
        """True when the next commit concerns it."""
        ...

    def stage_rest(self) -> None:
        """Stage what belongs behind everything else of this commit."""
        ...

    def after_commit(self, is_stored: bool) -> None:
        """Take note how the commit ended."""
        ...


def waits_for_store(properties: bytes) -> bool:
    """Return False when the answer must not wait for the disk (Java: Message.isWaitStoreMsgOK)."""
    value = find_property(properties, _WAIT)
    return value is None or value.lower() == b"true"


class Writer:
    """Stages every message that this broker stores, and holds the answers until its commit."""

    def __init__(
        self,
        runtime: Runtime,
        *,
        store: MessageStore,
        request_sync: Callable[[], None],
        copies: Copies,
        waiting_answers: WaitingAnswers,
        lites: LiteTopics,
    ) -> None:
        """``request_sync`` starts an fsync (SYNC_FLUSH), ``lites`` tells which messages are of lite topics.

        SYNC_FLUSH and what ``copies`` says may change at any time. Answers that disk or slaves must confirm go to
        ``waiting_answers``.
        """
        self._config = runtime.config
        self._store = store
        self._clock = runtime.clock
        self._rng = runtime.rng
        self._delay_levels_ms = list(runtime.config.delay_level_ms.values())  # of level 1 and following levels
        self._request_sync = request_sync
        self._copies = copies
        self._waiting_answers = waiting_answers
        self._lites = lites
        # Added to every stored message, as Apache's broker does on a send.
        cluster = runtime.config.broker_cluster_name
        self.enrichment = f"MSG_REGION\x01{REGION}\x02CLUSTER\x01{cluster}\x02TRACE_ON\x01true\x02".encode()
        self.held: HeldAnswers = {}
        self._held_not_waiting: HeldAnswers = {}  # sent with the commit in any mode
        self._listeners: list[CommitListener] = []  # of the messages that are staged
        self._preparations: list[Callable[[], None]] = []  # of the next commit
        self.companion: Companion | None = None
        self.staged_count = 0
        self.failed_commit_count = 0
        self.failed_put_count = 0  # messages of failed commits

    # -- staging -------------------------------------------------------------------------------------------------

    def put(self, topic: str, queue_id: int, draft: Draft, *, redirect_delay: bool = True) -> Placed:
        """Stage one message. With a DELAY level it goes to the schedule topic unless ``redirect_delay`` is off.

        Return its place in the log and the queue. It is stored once :meth:`commit` returns. Raises
        StoreUnavailableError.
        """
        properties = draft.properties
        if redirect_delay and b"DELAY\x01" in properties and (level := self.delay_level(properties)) > 0:
            # The queue is the level's; the tags code is the due time; the target stands in the properties.
            draft.properties = append_properties(properties, _target(topic, queue_id))
            draft.tags_code = self._clock.now_ms() + self.delay_ms(level)
            topic, queue_id = SCHEDULE_TOPIC, level - 1
        else:
            draft.tags_code = tags_code_of(properties)
        if _LIGHT_PLACE in draft.properties:  # the copy of a message that was in a light queue
            draft.properties = without_properties(draft.properties, LIGHT_PROPERTIES)
        if _LITE in draft.properties:
            draft.lite_topic = self._lites.of(topic, draft.properties)
        placed = self._store.stage(topic, queue_id, draft)
        self.staged_count += 1
        return placed

    def put_again(
        self,
        message: StoredMessage,
        topic: str,
        queue_id: int,
        properties: bytes,
        *,
        sys_flag: int | None = None,
        born_host: bytes | None = None,
        reconsume_times: int | None = None,
        prepared_transaction_offset: int = 0,
        redirect_delay: bool = False,
    ) -> Placed:
        """Stage a stored message at another place with these properties. What is not given stays as it was.

        A DELAY level counts only with ``redirect_delay``: most messages that are put again were delayed once.
        Properties that don't fit any more are left out, see :mod:`~pymq.broker.messages.fitting`; a retry that lacks
        the room to wait for its delay comes at once. Raises StoreUnavailableError.
        """
        if len(properties) > _PUT_AGAIN_MAX_BYTES or b"\0" in properties:
            properties = self._made_to_fit(message, topic, queue_id, properties, redirects=redirect_delay)
        draft = Draft(
            message.body,
            properties,
            message.born_timestamp_ms,
            message.born_host if born_host is None else born_host,
            flag=message.flag,
            sys_flag=message.sys_flag if sys_flag is None else sys_flag,
            reconsume_times=message.reconsume_times if reconsume_times is None else reconsume_times,
            prepared_transaction_offset=prepared_transaction_offset,
        )
        return self.put(topic, queue_id, draft, redirect_delay=redirect_delay)

    def _made_to_fit(
        self, message: StoredMessage, topic: str, queue_id: int, properties: bytes, *, redirects: bool
    ) -> bytes:
        """Return properties that a record can have, with its target if it is delayed; the others are left out."""
        is_delayed = redirects and self.delay_level(properties) > 0
        target_size = len(_target(topic, queue_id)) if is_delayed else 0
        if len(properties) + target_size > PROPERTIES_SIZE_MAX_BYTES:
            properties = slimmed(properties)
            if target_size and len(properties) + target_size > PROPERTIES_SIZE_MAX_BYTES:
                properties = without_properties(properties, (_DELAY,))
        shorter = fitted(properties)
        if shorter != properties:
            log.warning(
                "the message at %d, which another broker stored, goes to %s with %d of its %d bytes of properties: the "
                "others don't fit into a record with what the broker adds",
                message.physical_offset, topic, len(shorter), len(properties),
            )  # fmt: skip
        return shorter

    def put_batch(self, topic: str, queue_id: int, drafts: list[Draft]) -> Sequence[Placed]:
        """Stage the messages of one request, with consecutive queue offsets in one segment."""
        for draft in drafts:
            draft.tags_code = tags_code_of(draft.properties)
        placed = self._store.stage_many(topic, queue_id, drafts)
        self.staged_count += len(drafts)
        return placed

    def put_inner(self, topic: str, queue_id: int, draft: Draft, message_count: int) -> Placed:
        """Stage a batch request's body as one record, an inner batch, of a topic with batch queues."""
        placed = self._store.stage_inner(topic, queue_id, draft, message_count)
        self.staged_count += message_count
        return placed

    def delay_level(self, properties: bytes) -> int:
        """Return the delay level in the properties, clamped to the existing levels; 0 for none or an invalid one."""
        raw = find_property(properties, _DELAY)
        if raw is None or not raw.isdigit() or len(raw) > 9:
            return 0
        return min(int(raw), len(self._delay_levels_ms))

    def delay_ms(self, level: int) -> int:
        """Return the delay of level 1..n in milliseconds."""
        return self._delay_levels_ms[level - 1]

    def pick_queue(self, queue_count: int) -> int:
        """Return a random queue id, for senders that leave the choice to the broker."""
        return self._rng.randrange(queue_count) if queue_count > 1 else 0

    # -- answers -------------------------------------------------------------------------------------------------

    def _sync_flush(self) -> bool:
        return self._config.flush_disk_type == SYNC_FLUSH and not self._copies.counts_own_disk

    def hold(self, peer: AnswerTo, frame: bytes, properties: bytes = b"") -> None:
        """Keep the ready answer of a staged send until its commit, and until it is confirmed unless ``properties`` say
        WAIT=false.

        For a batch they are the request's properties, as in RocketMQ.
        """
        copies = self._copies
        waits = not properties or not (self._sync_flush() or copies.is_on) or copies.counts_own_disk
        waits = waits or waits_for_store(properties)
        hold(self.held if waits else self._held_not_waiting, peer, frame)

    def hold_all(self, held: HeldAnswers) -> None:
        """As :meth:`hold`, for many ready answers."""
        for peer, frames in held.items():
            self.held.setdefault(peer, []).extend(frames)

    def before_commit(self, stage: Callable[[], None]) -> None:
        """Have ``stage`` called once, to stage the first records of the next commit. It raises no StoreError."""
        self._preparations.append(stage)

    def when_committed(self, listener: CommitListener) -> None:
        """Have ``listener`` called once, after the commit of what is staged and before its answers leave."""
        self._listeners.append(listener)

    def commit(self) -> None:
        """Commit what is staged, then let the held answers go. Called once at the end of each turn.

        An error that only a bug can cause is raised after every held answer was refused because of it.
        """
        if self._preparations:
            preparations, self._preparations = self._preparations, []
            for stage in preparations:
                stage()
        companion = self.companion
        if companion is not None and companion.is_changed:
            companion.stage_rest()
            failures = self.failed_commit_count
            try:
                self._commit()
            finally:
                companion.after_commit(self.failed_commit_count == failures)
        elif self.staged_count or self.held:  # an answer may be of a message that was stored before
            self._commit()

    def _commit(self) -> None:
        staged_count, self.staged_count = self.staged_count, 0
        listeners, self._listeners = self._listeners, []
        held, self.held = self.held, {}
        not_waiting, self._held_not_waiting = self._held_not_waiting, {}
        needs_disk, needs_slaves = self._sync_flush(), self._copies.is_on
        try:
            self._store.commit(await_sync=needs_disk, await_confirm=needs_slaves)
        except StoreUnavailableError as error:
            self.failed_commit_count += 1
            self.failed_put_count += staged_count
            _tell(listeners, is_stored=False)
            for refused in (held, not_waiting):
                refuse(refused, ResponseCode.SERVICE_NOT_AVAILABLE, str(error))
            return
        except Exception as error:
            self.failed_commit_count += 1
            self.failed_put_count += staged_count
            _tell(listeners, is_stored=False)
            why = f"the commit failed inside the broker, the message may be stored: {type(error).__name__}: {error}"
            for unsure in (held, not_waiting):
                refuse(unsure, ResponseCode.SYSTEM_ERROR, why)
            raise
        if listeners:
            _tell(listeners, is_stored=True)
        release(not_waiting)
        if not needs_disk and not needs_slaves:
            release(held)
            return
        self._waiting_answers.add(held, needs_disk=needs_disk, needs_slaves=needs_slaves)
        if needs_disk:
            self._request_sync()


def _target(topic: str, queue_id: int) -> bytes:
    """Return the properties of a delayed message that say where it goes."""
    return f"REAL_TOPIC\x01{topic}\x02REAL_QID\x01{queue_id}\x02".encode()


def _tell(listeners: list[CommitListener], *, is_stored: bool) -> None:
    for listener in listeners:
        listener(is_stored)
