"""WaitingAnswers: answers to sends whose messages are committed, until the disk and enough slaves have them.

SYNC_FLUSH waits for the disk, SYNC_MASTER for slaves. A message appears to consumers when its confirmation comes, also
when that is too late for its answer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Protocol

from pymq.broker.messages.held_answers import HeldAnswers, refuse, release
from pymq.clock import Clock
from pymq.net.memory_budget import HELD_ANSWERS, MemoryBudget
from pymq.store.store import MessageStore
from pymq.wire.codes import ResponseCode

# What a waiting answer takes in memory, with its message's unit and keys.
ANSWER_BYTES = 1024
LIMIT_SHARE = 4  # all together take at most a quarter of the memory budget
_REFUSER = "waiting answers"


class LateReply(Protocol):
    """The answer for a message that is not confirmed in time. ``is_stored``: it is in the log for good."""

    @property
    def code(self) -> int: ...
    @property
    def remark(self) -> str: ...
    @property
    def is_stored(self) -> bool: ...


class Copies(Protocol):
    """What replication requires of a send: :class:`pymq.broker.replication.sync_mode.SyncMode`."""

    @property
    def is_on(self) -> bool:
        """True when answers wait for slaves."""

    @property
    def counts_own_disk(self) -> bool:
        """True where this broker's disk is among the disks that confirm: answers then don't wait for it once more."""

    @property
    def is_concerned(self) -> bool:
        """False while nothing waits for slaves and the store is not closed because of them."""

    @property
    def timeout_ms(self) -> int:
        """How long an answer waits for slaves."""

    def confirm_offset(self) -> int:
        """Return the log offset that enough slaves have; the log's end when none is needed."""

    def late_reply(self) -> LateReply:
        """Return the answer for a message that waited too long."""

    def given_up_reply(self, why: str, *, keeps_log: bool) -> LateReply:
        """Return the answer for a message that can't be awaited any more because of ``why``."""

    def check(self) -> None:
        """Close the store to writes, or open it again, as slaves come and go."""


class _Waiting(NamedTuple):
    """Answers that go once disk and slaves have the log up to ``position``.

    A deadline (monotonic ms) is None where the answers need no disk, or no slaves. At a deadline they are refused.
    """

    position: int
    disk_deadline_ms: int | None
    slaves_deadline_ms: int | None
    held: HeldAnswers
    size_bytes: int


class WaitingAnswers:
    """The queue of committed, unanswered sends, in the order of the log. Belongs to the event loop's thread."""

    def __init__(
        self,
        *,
        store: MessageStore,
        clock: Clock,
        copies: Copies,
        sync_timeout_ms: Callable[[], int],
        budget: MemoryBudget,
    ) -> None:
        """``sync_timeout_ms`` (how long an answer waits for its fsync) and what ``copies`` says may change at any
        time. ``budget`` counts what waits."""
        self._store = store
        self._budget = budget
        self._is_full = False
        self._clock = clock
        self._copies = copies
        self._sync_timeout_ms = sync_timeout_ms
        self._waiting: deque[_Waiting] = deque()
        self._synced_offset = 0  # the log offset up to which the disk has it
        self._confirm_offset = 0
        self._sync_wanted = 0  # the log offset up to which answers wait for the disk
        self._when_confirmed: Callable[[], None] | None = None

    def add(self, held: HeldAnswers, *, needs_disk: bool, needs_slaves: bool) -> None:
        """Keep the answers of what was just committed until disk or slaves confirm it. At least one is needed."""
        position = self._store.physical_max_offset
        if held:
            now_ms = self._clock.monotonic_ms()
            disk_deadline_ms = now_ms + self._sync_timeout_ms() if needs_disk else None
            slaves_deadline_ms = now_ms + self._copies.timeout_ms if needs_slaves else None
            size_bytes = sum(map(len, held.values())) * ANSWER_BYTES
            self._waiting.append(_Waiting(position, disk_deadline_ms, slaves_deadline_ms, held, size_bytes))
            self._count(size_bytes)
            if needs_disk:
                self._sync_wanted = position
        if needs_slaves:
            self.release_confirmed()

    def synced(self, position: int) -> None:
        """Take note that everything up to log ``position`` is on the disk."""
        self._synced_offset = max(self._synced_offset, position)
        self._store.confirm(synced_offset=self._synced_offset)
        self._release_ready()

    def release_confirmed(self) -> None:
        """Release what slaves confirm: they have more of the log, came or went, or fewer of them are needed."""
        self._confirm_offset = self._copies.confirm_offset()
        self._store.confirm(confirm_offset=self._confirm_offset)
        if self._waiting:
            self._release_ready()
        if self._when_confirmed is not None and not self.is_awaiting_slaves:
            callback, self._when_confirmed = self._when_confirmed, None
            callback()
        self._copies.check()

    def sync_failed(self, remark: str) -> None:
        """Refuse what waits for an fsync that failed (FLUSH_DISK_TIMEOUT): it is stored, but stays unconfirmed."""
        self._sync_wanted = 0
        waiting, self._waiting = self._waiting, deque()
        for each in waiting:
            if self._lacks_disk(each):
                refuse(each.held, ResponseCode.FLUSH_DISK_TIMEOUT, remark, is_stored=True)
                self._count(-each.size_bytes)
            else:
                self._waiting.append(each)
        self._release_ready()

    def tick(self) -> None:
        """Follow changes of slaves and settings, and refuse answers that waited too long for disk or slaves.

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
            self._count(-self._waiting.popleft().size_bytes)
            self._release_ready()

    def give_up(self, why: str, *, keeps_log: bool) -> None:
        """Refuse everything that waits: its confirmation can't be awaited because of ``why``.

        ``keeps_log``: all that is in the log now stays there.
        """
        waiting, self._waiting = self._waiting, deque()
        for each in waiting:
            late = self._copies.given_up_reply(why, keeps_log=keeps_log)
            if self._lacks_disk(each) and late.is_stored:
                late_code, remark = ResponseCode.FLUSH_DISK_TIMEOUT, f"the message is stored, but not synced: {why}"
                refuse(each.held, late_code, remark, is_stored=True)
            else:
                refuse(each.held, late.code, late.remark, is_stored=late.is_stored)
            self._count(-each.size_bytes)

    @property
    def waiting_count(self) -> int:
        """The number of answers that wait for disk or slaves."""
        return sum(len(frames) for each in self._waiting for frames in each.held.values())

    @property
    def is_awaiting_sync(self) -> bool:
        """True while answers wait for the disk."""
        return bool(self._waiting) and self._sync_wanted > self._synced_offset

    @property
    def is_awaiting_slaves(self) -> bool:
        """True while answers wait for slaves."""
        return any(map(self._lacks_slaves, self._waiting))

    def when_confirmed(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` once no answer waits for slaves, now or later. Keeps one callback at a time."""
        if self.is_awaiting_slaves:
            self._when_confirmed = callback
        else:
            callback()

    def _lacks_disk(self, waiting: _Waiting) -> bool:
        return waiting.disk_deadline_ms is not None and waiting.position > self._synced_offset

    def _lacks_slaves(self, waiting: _Waiting) -> bool:
        return waiting.slaves_deadline_ms is not None and waiting.position > self._confirm_offset

    def _release_ready(self) -> None:
        waiting = self._waiting
        while waiting and not self._lacks_disk(waiting[0]) and not self._lacks_slaves(waiting[0]):
            ready = waiting.popleft()
            release(ready.held)
            self._count(-ready.size_bytes)

    def _count(self, size_bytes: int) -> None:
        """Count what waits in the budget. The store takes no sends from the limit on until half of it waits."""
        self._budget.hold(HELD_ANSWERS, size_bytes)
        held_bytes, limit_bytes = self._budget.held[HELD_ANSWERS], self._budget.limit_bytes // LIMIT_SHARE
        if not self._is_full and held_bytes > limit_bytes:
            self._is_full = True
            self._budget.refused_count += 1
            self._store.refuse_writes(
                f"{held_bytes // ANSWER_BYTES} answers wait for the disk or for slaves, {limit_bytes // ANSWER_BYTES} "
                "is the limit (a quarter of memoryBudgetBytes): send again in a moment",
                by=_REFUSER,
            )
        elif self._is_full and held_bytes <= limit_bytes // 2:
            self._is_full = False
            self._store.refuse_writes(None, by=_REFUSER)

    def _refuse_if_late(self, waiting: _Waiting, now_ms: int) -> bool:
        """Refuse ``waiting`` after its deadline; return True then. When disk and slaves are late, name the disk."""
        disk_ms, slaves_ms = waiting.disk_deadline_ms, waiting.slaves_deadline_ms
        if disk_ms is not None and disk_ms <= now_ms and self._lacks_disk(waiting):
            remark = (
                f"the message is stored, but the disk did not confirm it within {self._sync_timeout_ms()} ms "
                f"(syncFlushTimeout): it appears once it does; check the disk"
            )
            refuse(waiting.held, ResponseCode.FLUSH_DISK_TIMEOUT, remark, is_stored=True)
            return True
        if slaves_ms is not None and slaves_ms <= now_ms and self._lacks_slaves(waiting):
            late = self._copies.late_reply()
            refuse(waiting.held, late.code, late.remark, is_stored=late.is_stored)
            return True
        return False
