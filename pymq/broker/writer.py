"""Writer: enriches messages, stages them in the store, commits one turn's worth at once and then releases the answers.

An answer to a send never leaves before :meth:`Writer.commit` has put its record into the log file; under SYNC_FLUSH
not before the file was synced. When a commit fails, every held answer becomes a refusal and nothing was stored.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from typing import Protocol

from pymq.clock import Clock
from pymq.errors import StoreUnavailableError
from pymq.model.names import SCHEDULE_TOPIC
from pymq.model.properties import append_properties, find_property, tags_code_of
from pymq.store.store import MessageStore, Placed
from pymq.wire.codes import ResponseCode
from pymq.wire.command import FLAG_RESPONSE, Command, decode_command, encode_command

REGION = "DefaultRegion"
_DELAY = b"DELAY"


class AnswerTo(Protocol):
    """Where held answers go: a connection."""

    def write(self, frame: bytes) -> None: ...

    def write_all(self, frames: list[bytes]) -> None: ...


# The ready answers to sends that wait for their commit, by connection.
HeldAnswers = dict[AnswerTo, list[bytes]]


def _refuse(held: HeldAnswers, code: int, remark: str) -> None:
    """Puts a refusal in every answer's place: the message was not stored, or not safely enough."""
    for peer, frames in held.items():
        for frame in frames:
            ready = decode_command(frame[4:])
            refusal = Command(code, opaque=ready.opaque, flag=FLAG_RESPONSE, remark=remark, serialize=ready.serialize)
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
        request_sync: Callable[[], None] = lambda: None,
    ) -> None:
        """``delay_levels_ms[i]`` is the delay of level ``i + 1``; ``request_sync`` starts an fsync (SYNC_FLUSH)."""
        self._store = store
        self._clock = clock
        self._rng = rng
        self._delay_levels_ms = delay_levels_ms
        self._sync_flush = sync_flush
        self._request_sync = request_sync
        # What every stored message gets, as Apache's broker adds it on send.
        self.enrichment = f"MSG_REGION\x01{REGION}\x02CLUSTER\x01{cluster}\x02TRACE_ON\x01true\x02".encode()
        self.held: HeldAnswers = {}
        # (log position that must be synced, the answers that wait for it)
        self._awaiting_sync: deque[tuple[int, HeldAnswers]] = deque()
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
    ) -> list[Placed]:
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

    def hold(self, peer: AnswerTo, frame: bytes) -> None:
        """Keeps the ready answer of a staged send until its commit."""
        frames = self.held.get(peer)
        if frames is None:
            self.held[peer] = [frame]
        else:
            frames.append(frame)

    def commit(self) -> None:
        """Commits what is staged, then lets the held answers go. Called once at the end of each turn."""
        if not self.staged_count:
            return
        self.staged_count = 0
        held, self.held = self.held, {}
        try:
            self._store.commit()
        except StoreUnavailableError as error:
            self.failed_commit_count += 1
            _refuse(held, ResponseCode.SERVICE_NOT_AVAILABLE, str(error))
            return
        if held and self._sync_flush():
            self._awaiting_sync.append((self._store.physical_max_offset, held))
            self._request_sync()
            return
        _release(held)

    def synced(self, position: int) -> None:
        """Everything up to log ``position`` is on disk: its answers may go."""
        waiting = self._awaiting_sync
        while waiting and waiting[0][0] <= position:
            _release(waiting.popleft()[1])

    def sync_failed(self, remark: str) -> None:
        """An fsync failed: what waits for it is stored but not safe (FLUSH_DISK_TIMEOUT)."""
        waiting, self._awaiting_sync = self._awaiting_sync, deque()
        for _, held in waiting:
            _refuse(held, ResponseCode.FLUSH_DISK_TIMEOUT, remark)

    @property
    def is_awaiting_sync(self) -> bool:
        return bool(self._awaiting_sync)
