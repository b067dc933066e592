"""Writer: enriches messages, stages them in the store, commits one turn's worth at once and then releases the answers.

An answer to a send never leaves before :meth:`Writer.commit` has put its record into the log file; under SYNC_FLUSH
not before the file was synced, unless the message says WAIT=false, and nobody sees the message earlier. When a commit
fails, every held answer becomes a refusal and nothing was stored.
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
SYNC_FLUSH = "SYNC_FLUSH"  # flushDiskType
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


class _Waiting(NamedTuple):
    """Answers that may go once the log is on the disk up to ``position``; refused at ``deadline_ms`` (monotonic)."""

    position: int
    deadline_ms: int
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
                ext=ready.ext if is_stored else None,
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
    ) -> None:
        """``delay_levels_ms[i]`` is the delay of level ``i + 1``; ``request_sync`` starts an fsync (SYNC_FLUSH).

        ``sync_flush`` and ``sync_timeout_ms`` (how long an answer waits for its fsync) may change at any time.
        """
        self._store = store
        self._clock = clock
        self._rng = rng
        self._delay_levels_ms = delay_levels_ms
        self._sync_flush = sync_flush
        self._sync_timeout_ms = sync_timeout_ms
        self._request_sync = request_sync
        # What every stored message gets, as Apache's broker adds it on send.
        self.enrichment = f"MSG_REGION\x01{REGION}\x02CLUSTER\x01{cluster}\x02TRACE_ON\x01true\x02".encode()
        self.held: HeldAnswers = {}
        self._held_not_waiting: HeldAnswers = {}  # go with the commit, also under SYNC_FLUSH
        self._awaiting_sync: deque[_Waiting] = deque()
        self.staged_count = 0
        self.failed_commit_count = 0

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
        """Keeps the ready answer of a staged send until its commit; ``properties`` may tell not to wait for the disk.

        For a batch they are those of the request, as in RocketMQ.
        """
        waits = not properties or not self._sync_flush() or waits_for_store(properties)
        _hold(self.held if waits else self._held_not_waiting, peer, frame)

    def commit(self) -> None:
        """Commits what is staged, then lets the held answers go. Called once at the end of each turn.

        An error that only a bug can cause is raised, with the answers sent in its name: nobody waits in vain.
        """
        if not self.staged_count:
            return
        self.staged_count = 0
        held, self.held = self.held, {}
        not_waiting, self._held_not_waiting = self._held_not_waiting, {}
        is_sync = self._sync_flush()
        try:
            self._store.commit(hide=is_sync)
        except StoreUnavailableError as error:
            self.failed_commit_count += 1
            for refused in (held, not_waiting):
                _refuse(refused, ResponseCode.SERVICE_NOT_AVAILABLE, str(error))
            return
        except Exception as error:
            self.failed_commit_count += 1
            why = f"the commit failed inside the broker, the message may be stored: {type(error).__name__}: {error}"
            for unsure in (held, not_waiting):
                _refuse(unsure, ResponseCode.SYSTEM_ERROR, why)
            raise
        _release(not_waiting)
        if not is_sync:
            _release(held)
            return
        if held:
            deadline_ms = self._clock.monotonic_ms() + self._sync_timeout_ms()
            self._awaiting_sync.append(_Waiting(self._store.physical_max_offset, deadline_ms, held))
        self._request_sync()

    def synced(self, position: int) -> None:
        """Everything up to log ``position`` is on disk: its messages may be seen, its answers may go."""
        self._store.reveal(position)
        waiting = self._awaiting_sync
        while waiting and waiting[0].position <= position:
            _release(waiting.popleft().held)

    def sync_failed(self, remark: str) -> None:
        """An fsync failed: what waits for it is stored but not safe (FLUSH_DISK_TIMEOUT), and stays unseen."""
        waiting, self._awaiting_sync = self._awaiting_sync, deque()
        for each in waiting:
            _refuse(each.held, ResponseCode.FLUSH_DISK_TIMEOUT, remark, is_stored=True)

    def tick(self) -> None:
        """Gives up on answers that waited ``syncFlushTimeout`` for the disk. Their messages appear when it is done."""
        waiting = self._awaiting_sync
        if not waiting:
            return
        now_ms = self._clock.monotonic_ms()
        while waiting and waiting[0].deadline_ms <= now_ms:
            late = waiting.popleft()
            remark = (
                f"the message is stored, but the disk did not confirm it within {self._sync_timeout_ms()} ms "
                f"(syncFlushTimeout): it appears once it does; check the disk"
            )
            _refuse(late.held, ResponseCode.FLUSH_DISK_TIMEOUT, remark, is_stored=True)

    @property
    def is_awaiting_sync(self) -> bool:
        return bool(self._awaiting_sync)
