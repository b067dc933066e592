"""Writer: enriches messages, stages them in the store, commits one turn's worth at once and then releases the answers.

An answer to a send never leaves before :meth:`Writer.commit` has put its record into the log file; under SYNC_FLUSH
not before the file was synced and under SYNC_MASTER not before enough slaves have it, unless the message says
WAIT=false, and nobody sees the message earlier. When a commit fails, every held answer becomes a refusal and nothing
was stored.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from pymq.clock import Clock
from pymq.errors import StoreUnavailableError
from pymq.model.names import SCHEDULE_TOPIC
from pymq.model.properties import append_properties, find_property, tags_code_of
from pymq.store.store import MessageStore, Placed
from pymq.wire.codes import ResponseCode
from pymq.wire.command import FLAG_RESPONSE, Command, decode_command, encode_command

REGION = "DefaultRegion"
SYNC_TIMEOUT_MS = 5000  # syncFlushTimeout
_DELAY = b"DELAY"
_WAIT = b"WAIT"
# Properties of a message whose answer waits for no disk: what the broker puts back itself.
NOT_WAITING = b"WAIT\x01false\x02"


class AnswerTo(Protocol):
    """Where held answers go: a connection."""

    def write(self, frame: bytes) -> None: ...

    def write_all(self, frames: list[bytes]) -> None: ...


# The ready answers to sends that wait for their commit, by connection.
HeldAnswers = dict[AnswerTo, list[bytes]]


class LateReply(Protocol):
    """What a sender is told whose message is stored, but not confirmed in time."""

    @property
    def code(self) -> int: ...
    @property
    def remark(self) -> str: ...


class Copies(Protocol):
    """What the writer asks of replication (pymq.broker.replication.master.sync_mode has it)."""

    @property
    def is_on(self) -> bool:
        """True when answers wait for slaves."""

    @property
    def is_concerned(self) -> bool:
        """False while nothing waits for slaves, nor is closed for them."""

    @property
    def timeout_ms(self) -> int:
        """How long they wait."""

    def confirm_offset(self) -> int:
        """The log offset that enough slaves have; the log's end when none is needed."""

    def late_reply(self) -> LateReply:
        """For what waited too long."""

    def check(self) -> None:
        """Closes the store to writes, or opens it again, as slaves come and go."""


class _Waiting(NamedTuple):
    """Answers that may go once disk and slaves have the log up to ``position``, as far as they are needed.

    They are refused when a need is not met at its deadline (monotonic ms; None: no such need).
    """

    position: int
    disk_deadline_ms: int | None
    slaves_deadline_ms: int | None
    held: HeldAnswers


def waits_for_store(properties: bytes) -> bool:
    """False when the sender does not want its answer to wait for the disk (Java: Message.isWaitStoreMsgOK)."""
    value = find_property(properties, _WAIT)
    return value is None or value.lower() == b"true"


def _hold(held: HeldAnswers, peer: AnswerTo, frame: bytes) -> None:
    frames = held.get(peer)
    if frames is None:
        held[peer] = [frame]
    else:
        frames.append(frame)


def _refuse(held: HeldAnswers, code: int, remark: str, *, is_stored: bool = False) -> None:
    """Puts a refusal in every answer's place: the message was not stored, or not safely enough.

    ``is_stored``: it keeps its place, and the answer its fields; Java's client reads them for such a code.
    """
    for peer, frames in held.items():
        for frame in frames:
            ready = decode_command(frame[4:])
            refusal = Command(
                code,
                opaque=ready.opaque,
                flag=FLAG_RESPONSE,
                remark=remark,
                ext=ready.ext if is_stored else {},
                serialize=ready.serialize,
            )
            peer.write(encode_command(refusal))


def _release(held: HeldAnswers) -> None:
    for peer, frames in held.items():
        peer.write_all(frames)


class Writer:
    """The one door through which records enter the store."""

    def __init__(
        self,
        *,
        store: MessageStore,
        clock: Clock,
        rng: random.Random,
        cluster: str,
        delay_levels_ms: list[int],
        sync_flush: Callable[[], bool] = lambda: False,
        sync_timeout_ms: Callable[[], int] = lambda: SYNC_TIMEOUT_MS,
        request_sync: Callable[[], None] = lambda: None,
        copies: Copies,
    ) -> None:
        """``delay_levels_ms[i]`` is the delay of level ``i + 1``; ``request_sync`` starts an fsync (SYNC_FLUSH).

        ``sync_flush``, ``sync_timeout_ms`` (how long an answer waits for its fsync) and what ``copies`` says may change
        at any time.
        """
        self._store = store
        self._clock = clock
        self._rng = rng
        self._delay_levels_ms = delay_levels_ms
        self._sync_flush = sync_flush
        self._sync_timeout_ms = sync_timeout_ms
        self._request_sync = request_sync
        self._copies = copies
        # What every stored message gets, as Apache's broker adds it on send.
        self.enrichment = f"MSG_REGION\x01{REGION}\x02CLUSTER\x01{cluster}\x02TRACE_ON\x01true\x02".encode()
        self.held: HeldAnswers = {}
        self._held_not_waiting: HeldAnswers = {}  # go with the commit, whatever the mode
        self._waiting: deque[_Waiting] = deque()
        self._synced = 0  # log offsets last heard of
        self._confirm_offset = 0
        self._sync_wanted = 0  # the log offset up to which answers wait for the disk
        self._when_confirmed: Callable[[], None] | None = None
        self.staged_count = 0
        self.failed_commit_count = 0
        self.failed_put_count = 0  # messages of these

    # -- staging -------------------------------------------------------------------------------------------------

    def put(
        self,
        topic: str,
        queue_id: int,
        body: bytes,
        properties: bytes,
        *,
        flag: int = 0,
        sys_flag: int = 0,
        born_timestamp_ms: int,
        born_host: bytes,
        reconsume_times: int = 0,
        prepared_transaction_offset: int = 0,
        redirect_delay: bool = True,
    ) -> Placed:
        """Stages one message; with a DELAY level it goes to the schedule topic unless ``redirect_delay`` is off.

        Returns where it will stand. It is stored once :meth:`commit` has returned. Raises StoreUnavailableError.
        """
        if redirect_delay and b"DELAY\x01" in properties:
            level = self.delay_level(properties)
            if level > 0:
                topic, queue_id, properties, code = self._delayed(topic, queue_id, properties, level)
                return self._stage(
                    topic,
                    queue_id,
                    body,
                    properties,
                    code,
                    flag,
                    sys_flag,
                    born_timestamp_ms,
                    born_host,
                    reconsume_times,
                    prepared_transaction_offset,
                )
        return self._stage(
            topic,
            queue_id,
            body,
            properties,
            tags_code_of(properties),
            flag,
            sys_flag,
            born_timestamp_ms,
            born_host,
            reconsume_times,
            prepared_transaction_offset,
        )

    def put_batch(
        self,
        topic: str,
        queue_id: int,
        entries: list[tuple[int, bytes, bytes]],
        *,
        sys_flag: int,
        born_timestamp_ms: int,
        born_host: bytes,
    ) -> Sequence[Placed]:
        """Stages (flag, body, properties) entries as messages with consecutive queue offsets in one segment."""
        placed = self._store.stage_many(
            topic,
            queue_id,
            [(flag, body, properties, tags_code_of(properties)) for flag, body, properties in entries],
            sys_flag=sys_flag,
            born_timestamp_ms=born_timestamp_ms,
            born_host=born_host,
        )
        self.staged_count += len(entries)
        return placed

    def delay_level(self, properties: bytes) -> int:
        """The delay level in the properties, clamped to the levels there are; 0 for none or nonsense."""
        raw = find_property(properties, _DELAY)
        if raw is None or not raw.isdigit() or len(raw) > 9:
            return 0
        return min(int(raw), len(self._delay_levels_ms))

    def delay_ms(self, level: int) -> int:
        """How long level 1..n waits."""
        return self._delay_levels_ms[level - 1]

    def pick_queue(self, queue_count: int) -> int:
        """A random queue, for senders that leave the choice to the broker."""
        return self._rng.randrange(queue_count) if queue_count > 1 else 0

    def _delayed(self, topic: str, queue_id: int, properties: bytes, level: int) -> tuple[str, int, bytes, int]:
        """Redirects to the schedule topic: queue = level - 1, tagsCode = due time, the real target as properties."""
        real = f"REAL_TOPIC\x01{topic}\x02REAL_QID\x01{queue_id}\x02".encode()
        due_ms = self._clock.now_ms() + self.delay_ms(level)
        return SCHEDULE_TOPIC, level - 1, append_properties(properties, real), due_ms

    def _stage(
        self,
        topic: str,
        queue_id: int,
        body: bytes,
        properties: bytes,
        code: int,
        flag: int,
        sys_flag: int,
        born_timestamp_ms: int,
        born_host: bytes,
        reconsume_times: int,
        prepared: int,
    ) -> Placed:
        placed = self._store.stage(
            topic,
            queue_id,
            body=body,
            properties=properties,
            tags_code=code,
            flag=flag,
            sys_flag=sys_flag,
            born_timestamp_ms=born_timestamp_ms,
            born_host=born_host,
            reconsume_times=reconsume_times,
            prepared_transaction_offset=prepared,
        )
        self.staged_count += 1
        return placed

    # -- answers -------------------------------------------------------------------------------------------------

    def hold(self, peer: AnswerTo, frame: bytes, properties: bytes = b"") -> None:
        """Keeps the ready answer of a staged send until its commit; ``properties`` may tell to wait for no more.

        For a batch they are those of the request, as in RocketMQ.
        """
        waits = not properties or not (self._sync_flush() or self._copies.is_on) or waits_for_store(properties)
        _hold(self.held if waits else self._held_not_waiting, peer, frame)

    def commit(self) -> None:
        """Commits what is staged, then lets the held answers go. Called once at the end of each turn.

        An error that only a bug can cause is raised, with the answers sent in its name: nobody waits in vain.
        """
        if not self.staged_count:
            return
        staged_count, self.staged_count = self.staged_count, 0
        held, self.held = self.held, {}
        not_waiting, self._held_not_waiting = self._held_not_waiting, {}
        needs_disk, needs_slaves = self._sync_flush(), self._copies.is_on
        try:
            self._store.commit(await_sync=needs_disk, await_confirm=needs_slaves)
        except StoreUnavailableError as error:
            self.failed_commit_count += 1
            self.failed_put_count += staged_count
            for refused in (held, not_waiting):
                _refuse(refused, ResponseCode.SERVICE_NOT_AVAILABLE, str(error))
            return
        except Exception as error:
            self.failed_commit_count += 1
            self.failed_put_count += staged_count
            why = f"the commit failed inside the broker, the message may be stored: {type(error).__name__}: {error}"
            for unsure in (held, not_waiting):
                _refuse(unsure, ResponseCode.SYSTEM_ERROR, why)
            raise
        _release(not_waiting)
        if not needs_disk and not needs_slaves:
            _release(held)
            return
        self._wait(held, needs_disk, needs_slaves)

    def _wait(self, held: HeldAnswers, needs_disk: bool, needs_slaves: bool) -> None:
        """What was just committed is confirmed by disk or slaves before it is answered and seen."""
        position = self._store.physical_max_offset
        if held:
            now_ms = self._clock.monotonic_ms()
            disk_deadline_ms = now_ms + self._sync_timeout_ms() if needs_disk else None
            slaves_deadline_ms = now_ms + self._copies.timeout_ms if needs_slaves else None
            self._waiting.append(_Waiting(position, disk_deadline_ms, slaves_deadline_ms, held))
            if needs_disk:
                self._sync_wanted = position
        if needs_slaves:
            self.release_confirmed()
        if needs_disk:
            self._request_sync()

    def synced(self, position: int) -> None:
        """Everything up to log ``position`` is on disk."""
        self._synced = max(self._synced, position)
        self._store.confirm(synced=self._synced)
        self._release_ready()

    def release_confirmed(self) -> None:
        """Slaves have more of the log, or came, or went, or fewer are needed: looks what that lets go."""
        self._confirm_offset = self._copies.confirm_offset()
        self._store.confirm(confirm_offset=self._confirm_offset)
        if self._waiting:
            self._release_ready()
        if self._when_confirmed is not None and not self.is_awaiting_slaves:
            callback, self._when_confirmed = self._when_confirmed, None
            callback()
        self._copies.check()

    def sync_failed(self, remark: str) -> None:
        """An fsync failed: what waits for it is stored but not safe (FLUSH_DISK_TIMEOUT), and stays unseen."""
        self._sync_wanted = 0
        waiting, self._waiting = self._waiting, deque()
        for each in waiting:
            if self._lacks_disk(each):
                _refuse(each.held, ResponseCode.FLUSH_DISK_TIMEOUT, remark, is_stored=True)
            else:
                self._waiting.append(each)
        self._release_ready()

    def tick(self) -> None:
        """Follows what slaves and settings do, and gives up on answers that waited too long for disk or slaves.

        Their messages appear when they are confirmed.
        """
        if (
            self._waiting
            or self._copies.is_concerned
            or self._store.has_unconfirmed
            or self._when_confirmed is not None
        ):
            self.release_confirmed()
        now_ms = self._clock.monotonic_ms() if self._waiting else 0
        while self._waiting and self._refuse_if_late(self._waiting[0], now_ms):
            self._waiting.popleft()
            self._release_ready()

    def give_up(self, why: str) -> None:
        """Answers everything that waits: it is stored, but nobody will tell whether it is confirmed."""
        waiting, self._waiting = self._waiting, deque()
        for each in waiting:
            code = ResponseCode.FLUSH_DISK_TIMEOUT if self._lacks_disk(each) else ResponseCode.FLUSH_SLAVE_TIMEOUT
            _refuse(each.held, code, f"the message is stored, but not confirmed: {why}", is_stored=True)

    @property
    def waiting_count(self) -> int:
        """Answers that wait for disk or slaves."""
        return sum(len(frames) for each in self._waiting for frames in each.held.values())

    @property
    def is_awaiting_sync(self) -> bool:
        """True while answers wait for the disk."""
        return bool(self._waiting) and self._sync_wanted > self._synced

    @property
    def is_awaiting_slaves(self) -> bool:
        """True while answers wait for slaves."""
        return any(map(self._lacks_slaves, self._waiting))

    def when_confirmed(self, callback: Callable[[], None]) -> None:
        """``callback`` is called once no answer waits for slaves: now, or in time. One at a time."""
        if self.is_awaiting_slaves:
            self._when_confirmed = callback
        else:
            callback()

    def _lacks_disk(self, waiting: _Waiting) -> bool:
        return waiting.disk_deadline_ms is not None and waiting.position > self._synced

    def _lacks_slaves(self, waiting: _Waiting) -> bool:
        return waiting.slaves_deadline_ms is not None and waiting.position > self._confirm_offset

    def _release_ready(self) -> None:
        waiting = self._waiting
        while waiting and not self._lacks_disk(waiting[0]) and not self._lacks_slaves(waiting[0]):
            _release(waiting.popleft().held)

    def _refuse_if_late(self, waiting: _Waiting, now_ms: int) -> bool:
        """True when its time was over and it is answered. When both are late, the disk is told: it is the worse."""
        disk_ms, slaves_ms = waiting.disk_deadline_ms, waiting.slaves_deadline_ms
        if disk_ms is not None and disk_ms <= now_ms and self._lacks_disk(waiting):
            remark = (
                f"the message is stored, but the disk did not confirm it within {self._sync_timeout_ms()} ms "
                f"(syncFlushTimeout): it appears once it does; check the disk"
            )
            _refuse(waiting.held, ResponseCode.FLUSH_DISK_TIMEOUT, remark, is_stored=True)
            return True
        if slaves_ms is not None and slaves_ms <= now_ms and self._lacks_slaves(waiting):
            late = self._copies.late_reply()
            _refuse(waiting.held, late.code, late.remark, is_stored=True)
            return True
        return False
