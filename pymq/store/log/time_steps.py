"""TimeSteps: where store times of the log go back, because a clock had been wrong or was set back.

Between two such places store times ascend, so a search by time is one binary search in each part. Without them it would
be one over a sequence that does not ascend, and could pass over messages.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence

import msgspec

from pymq.errors import StoreError, StoreUnavailableError
from pymq.store.disk.fs import Files
from pymq.store.disk.json_table import JsonTable

TIME_STEPS_FILE = "timeSteps.json"
# Shorter steps are not noted: clocks of RocketMQ's brokers are adjusted by some milliseconds, and a search by time may
# be off by as much.
STEP_BACK_MIN_MS = 60_000
TIME_STEP_COUNT_MAX = 256  # the oldest ones go first: they are the first to be deleted with their segments


class TimeSteps:
    """Physical offsets of records whose store times are earlier than those of the records before them, ascending.

    :meth:`save` may run in another thread than the other methods.
    """

    def __init__(self) -> None:
        self.offsets: Sequence[int] = ()  # replaced as a whole
        self._saved: Sequence[int] = ()
        self._table: JsonTable | None = None

    def load(self, files: Files, root: str, log_min_offset: int) -> None:
        """Read ``config/timeSteps.json``. A file that is missing or unusable counts as empty."""
        self._table = JsonTable(files, f"{root}/config/{TIME_STEPS_FILE}")
        try:
            found = msgspec.convert(self._table.load().get("physicalOffsets", []), list[int])
        except (StoreError, msgspec.ValidationError):
            found = []
        self.offsets = self._saved = tuple(sorted({offset for offset in found if offset > log_min_offset}))

    def note(self, offset: int, before_ms: int, store_ms: int) -> None:
        """Note the record at ``offset`` if its time is earlier by more than a step than that of the one before it."""
        if before_ms - store_ms > STEP_BACK_MIN_MS and offset not in self.offsets:
            offsets = list(self.offsets)
            insort(offsets, offset)
            self.offsets = tuple(offsets[-TIME_STEP_COUNT_MAX:])

    def truncate(self, end: int) -> None:
        """Forget the places from the physical offset ``end`` on."""
        self.offsets = self.offsets[: bisect_left(self.offsets, end)]

    def save(self) -> bool:
        """Save what has changed; False when that is not possible now."""
        offsets = self.offsets
        if offsets != self._saved and self._table is not None:
            try:
                self._table.save({"physicalOffsets": list(offsets)})
            except StoreUnavailableError:
                return False
            self._saved = offsets
        return True
