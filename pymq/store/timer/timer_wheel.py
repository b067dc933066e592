"""TimerWheel: the file ``timerwheel``, one slot for each unit of time. Java: TimerWheel, Slot.

Changed slots wait in memory until :meth:`TimerWheel.write`. So the file never names a unit that the timer log may lose.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from pymq.store.disk.fs import File, Files
from pymq.store.timer.timer_log import NO_POSITION

SLOT: Final = struct.Struct(">qqqii")  # time / precision, first and last position, count, magic
SLOT_BYTES: Final = SLOT.size
WHEEL_SLOTS: Final = 7 * 86400  # RocketMQ's; the file has twice as many
_SCAN_SLOTS: Final = 8192


class Slot(NamedTuple):
    """A slot with ``num`` messages. ``magic`` has no use; it is kept."""

    first: int
    last: int
    num: int
    magic: int = 0


class TimerWheel:
    """Slots by their begin (Unix ms, a multiple of the precision)."""

    def __init__(self, files: Files, path: str, slot_count: int, precision_ms: int) -> None:
        self._files = files
        self._path = path
        self._slot_count = slot_count * 2
        self._precision_ms = precision_ms
        self._file: File | None = None
        self._changed: dict[int, bytes] = {}  # by index

    @property
    def size_bytes(self) -> int:
        """The file's size."""
        return self._slot_count * SLOT_BYTES

    def load(self) -> bool:
        """Open the file; False when there is none, or one of another size. Raises OSError."""
        if not self._files.exists(self._path):
            return False
        file = self._files.open(self._path)
        if file.size() != self.size_bytes:
            file.close()
            return False
        self._file = file
        return True

    def slot(self, slot_ms: int) -> Slot | None:
        """Return the slot that begins then, None when no message is in it. Raises OSError."""
        number = slot_ms // self._precision_ms
        index = number % self._slot_count
        raw = self._changed.get(index)
        if raw is None:
            if self._file is None:
                return None
            raw = self._file.pread(index * SLOT_BYTES, SLOT_BYTES)
        found, first, last, count, magic = SLOT.unpack(raw)
        return Slot(first, last, count, magic) if found == number and last != NO_POSITION else None

    def put(self, slot_ms: int, slot: Slot) -> None:
        number = slot_ms // self._precision_ms
        self._changed[number % self._slot_count] = SLOT.pack(number, *slot)

    def forget(self, slot_ms: int) -> None:
        """Empty a slot."""
        self.put(slot_ms, Slot(NO_POSITION, NO_POSITION, 0))

    def next_used(self, begin_ms: int, end_ms: int) -> int | None:
        """Return the first slot with messages from ``begin_ms`` on, None when none is before ``end_ms``."""
        precision = self._precision_ms
        number, end = begin_ms // precision, -(-end_ms // precision)
        end = min(end, number + self._slot_count)
        while number < end:
            index = number % self._slot_count
            count = min(_SCAN_SLOTS, end - number, self._slot_count - index)
            raw = self._file.pread(index * SLOT_BYTES, count * SLOT_BYTES) if self._file is not None else b""
            if raw.count(0) != len(raw) or self._changed:
                for offset in range(count):
                    if self.slot((number + offset) * precision) is not None:
                        return (number + offset) * precision
            number += count
        return None

    def slots(self) -> Iterator[tuple[int, Slot]]:
        """Yield (begin, slot) for each slot that the file has or memory holds, in no order."""
        for index in range(0, self._slot_count, _SCAN_SLOTS):
            if self._file is None:
                break
            raw = self._file.pread(index * SLOT_BYTES, min(_SCAN_SLOTS, self._slot_count - index) * SLOT_BYTES)
            if raw.count(0) == len(raw):
                continue
            for number, (found, *fields) in enumerate(SLOT.iter_unpack(raw), index):
                if found and fields[1] != NO_POSITION and number not in self._changed:
                    yield found * self._precision_ms, Slot(*fields)
        for raw in list(self._changed.values()):
            found, *fields = SLOT.unpack(raw)
            if fields[1] != NO_POSITION:
                yield found * self._precision_ms, Slot(*fields)

    def take_changes(self) -> dict[int, bytes]:
        """Return the slots to write, by index. They stay readable in memory until :meth:`written`."""
        return dict(self._changed)

    def write(self, changes: dict[int, bytes]) -> None:
        """Write slots to the file and sync it. Safe from another thread. Raises OSError."""
        if not changes:
            return
        if self._file is None:
            self._file = self._files.open(self._path, create=True, size=self.size_bytes)
            self._files.sync_dir(self._path.rpartition("/")[0])
        run_at, run = -1, bytearray()
        for index in sorted(changes):
            if index * SLOT_BYTES != run_at + len(run):
                if run:
                    self._file.pwrite(run_at, run)
                run_at, run = index * SLOT_BYTES, bytearray()
            run += changes[index]
        self._file.pwrite(run_at, run)
        self._file.sync()

    def written(self, changes: dict[int, bytes]) -> None:
        """Forget slots that :meth:`write` wrote, except those that changed since."""
        for index, raw in changes.items():
            if self._changed.get(index) is raw:
                del self._changed[index]

    def clear(self) -> None:
        """Remove the file and all slots. Raises OSError."""
        self._changed.clear()
        self.close()
        if self._files.exists(self._path):
            self._files.remove(self._path)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
