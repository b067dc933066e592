"""Housekeeping: inserts keys into the index, digests new bytes and writes queue tails to their files.

A store calls it some times a second. While nothing changes it does nothing and touches no file.
"""

from __future__ import annotations

from pymq.store.dispatch.unit_mender import UnitMender
from pymq.store.lifecycle.checkpointer import Checkpointer
from pymq.store.lifecycle.store_data import StoreData
from pymq.store.light.light_queues import NotedLights
from pymq.store.write.appender import Appender

TAILS_A_TICK = 200  # queues whose files a tick opens, makes and writes at most: 5 ms, more on a slow file system
TAILS_A_TICK_MIN = 20  # of more than that
# The tails of many queues are written over so many ticks, 30 s: each then has more units, and sends have more time. The
# checkpoint moves at a round's end.
TICKS_A_ROUND = 600
DISTRUST_INTERVAL_MS = 600_000  # a block of units is compared with its checksum again after so long

_LogState = tuple[tuple[int, int], int, int]


class Housekeeping:
    """The housekeeping of one open store, whose thread calls everything."""

    def __init__(
        self,
        data: StoreData,
        *,
        appender: Appender,
        checkpoints: Checkpointer,
        mender: UnitMender,
    ) -> None:
        self._log = data.log
        self._queues = data.queues
        self._lights = data.lights
        self._index = data.index
        self._digests = data.digests
        self._appender = appender
        self._checkpoints = checkpoints
        self._mender = mender
        self._next_distrust_ms = 0
        self._clock = data.clock
        self._settings = data.settings
        self._next_write_ms = 0
        self._round_state: _LogState = ((0, 0), 0, 0)  # at the begin of a round of tails
        self._round_lights = NotedLights()  # likewise
        self._written_state: _LogState | None = None  # None: keys were inserted since

    def tick(self) -> None:
        """Do what has become due since the last call."""
        if self._index is not None and self._index.waiting:
            self._index.work()
            self._written_state = None
        if self._index is not None:
            self._index.prove_some()
        if self._digests is not None:
            self._digests.work()
        if self._mender.is_busy:
            self._mender.work()
        now_ms = self._clock.monotonic_ms()
        if now_ms >= self._next_distrust_ms:
            self._next_distrust_ms = now_ms + DISTRUST_INTERVAL_MS
            self._queues.distrust_sums()
        self._queues.distrust_some()
        if now_ms >= self._next_write_ms and (self._is_written() or self._write_in_ticks()):
            self._next_write_ms = now_ms + self._settings.queue_write_interval_ms()

    def _write_in_ticks(self) -> bool:
        """Write some tails. Return True once all are in files that there were at the begin of the round."""
        if not self._queues.is_in_round:
            if not self._lights.write():
                return True
            self._round_state = self._log_state()
            self._round_lights = self._lights.note(self._round_state[0][0])
        try:
            if not self._queues.write_some_tails(self._round_state[0][0], self._tails_a_tick):
                return False
        except OSError as error:
            self._note_problem(error)
            return True
        self._note_round()
        return True

    def _note_round(self) -> None:
        """Let the checkpoint vouch for the units of the round's begin. Those that came since wait for the next one."""
        if self._digests is not None:
            self._digests.write()
        self._checkpoints.note_written(self._round_state[0], self._round_lights)
        self._round_lights = NotedLights()
        self._written_state = self._round_state
        self._appender.queue_problem = None

    @staticmethod
    def _tails_a_tick(waiting_count: int) -> int:
        """How many of the tails that wait at the begin of a round each of its ticks writes."""
        if waiting_count <= TAILS_A_TICK:
            return waiting_count
        return min(max(waiting_count // TICKS_A_ROUND, TAILS_A_TICK_MIN), TAILS_A_TICK)

    def write(self) -> None:
        """Write digests and the tails of queues to their files. A failure becomes a problem, and is tried again."""
        self._written_state = self._log_state()
        if self._digests is not None:
            self._digests.write()
        try:
            self._queues.write_tails()
        except OSError as error:
            self._note_problem(error)
            return
        self._appender.queue_problem = None
        if self._lights.write():
            self._checkpoints.note_written()

    def _note_problem(self, error: OSError) -> None:
        self._appender.queue_problem = f"consume queue files lag behind: {error.filename}: {error.strerror}"

    def _is_written(self) -> bool:
        """True when nothing has changed since the last :meth:`write`."""
        if self._log_state() != self._written_state or self._appender.queue_problem is not None:
            return False
        return self._digests is None or self._digests.is_written

    def _log_state(self) -> _LogState:
        """Figures that change when units are added, a segment may settle, or a segment is deleted."""
        return self._log.visible_end, self._log.synced_offset, self._log.min_offset
