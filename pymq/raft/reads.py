"""Reads: which confirm offset a read must see that promises to be current (read index, dissertation §6.4)."""

from __future__ import annotations

from typing import NamedTuple

from pymq.raft.core import Core, ReadAnswer
from pymq.raft.messages import ReadIndexAnswer
from pymq.raft.state import Replica

READS_MAX = 10_000


class _Read(NamedTuple):
    request_id: int
    asker: Replica
    confirm_offset: int
    round_number: int


class Reads:
    """The reads that wait until a majority has answered a heartbeat that was sent after them."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._waiting: list[_Read] = []

    def ask(self, request_id: int, asker: Replica, round_number: int, *, is_current: bool) -> bool:
        """Note a read that the round ``round_number`` decides. Returns False when it was refused at once.

        A leader knows the newest confirm offset once it has confirmed something of its own epoch (``is_current``).
        """
        if not is_current or len(self._waiting) >= READS_MAX:
            self._answer(request_id, asker, None)
            return False
        self._waiting.append(_Read(request_id, asker, self._core.confirm_offset, round_number))
        return True

    def on_round(self, round_number: int) -> None:
        """Answer the reads that rounds up to this one, answered by a majority, decide."""
        for read in self._waiting:
            if read.round_number <= round_number:
                self._answer(read.request_id, read.asker, read.confirm_offset)
        self._waiting = [read for read in self._waiting if read.round_number > round_number]

    def wait_for_more_than(self, round_number: int) -> bool:
        """Return True when reads wait, and all of them for a later round."""
        return bool(self._waiting) and self._waiting[0].round_number > round_number

    def refuse_all(self) -> None:
        """Refuse what waits: the leader is none any more."""
        for read in self._waiting:
            self._answer(read.request_id, read.asker, None)
        self._waiting = []

    def _answer(self, request_id: int, asker: Replica, confirm_offset: int | None) -> None:
        core = self._core
        if asker == core.me:
            core.reads.append(ReadAnswer(request_id, confirm_offset))
        else:
            core.outbox.append(ReadIndexAnswer(core.me, asker, core.term, request_id, confirm_offset))
