"""TimerStore: wheel, log and checkpoint of the timer messages of one directory, opened by its broker.

It knows slots and units, not messages: the broker says which message takes which slot.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from threading import Lock

from pymq.store.disk.fs import Files
from pymq.store.disk.timer_checkpoint import (
    LAST_READ_TIME,
    LOG_FLUSHED,
    QUEUE_OFFSET,
    QUEUE_OFFSET_OF_MASTER,
    TimerCheckFile,
)
from pymq.store.timer.timer_log import (
    LINK,
    MAGIC_DEFAULT,
    MAGIC_DELETE,
    MAGIC_ROLL,
    NO_POSITION,
    PACKED_FIELDS,
    UNIT_BYTES,
    PackedUnit,
    TimerLog,
    TimerUnit,
    pack_unit,
    unpack_unit,
)
from pymq.store.timer.timer_wheel import WHEEL_SLOTS, Slot, TimerWheel

__all__ = [
    "MAGIC_DEFAULT",
    "MAGIC_DELETE",
    "MAGIC_ROLL",
    "NO_POSITION",
    "PACKED_FIELDS",
    "WHEEL_SLOTS",
    "PackedUnit",
    "TimerProgress",
    "TimerState",
    "TimerStore",
    "TimerUnit",
    "pack_unit",
    "unpack_unit",
]


@dataclass(slots=True)
class TimerProgress:
    """How far a broker has come: slots before ``read_ms`` are delivered, records of the wheel's topic before
    ``queue_offset`` are in the wheel."""

    read_ms: int = 0
    queue_offset: int = 0


@dataclass(slots=True)
class TimerState:
    """What :meth:`TimerStore.write` writes: taken on the owner's thread, written by any."""

    number: int
    progress: TimerProgress
    log_end: int
    master_queue_offset: int
    version: tuple[int, int, int]
    slots: dict[int, bytes] = field(default_factory=dict)


class TimerStore:
    """One thread calls everything but :meth:`write`."""

    def __init__(
        self, files: Files, root: str, *, segment_bytes: int, precision_ms: int, slot_count: int = WHEEL_SLOTS
    ) -> None:
        self.precision_ms = precision_ms
        self.slot_count = slot_count
        self.log = TimerLog(files, f"{root}/timerlog", segment_bytes)
        self.wheel = TimerWheel(files, f"{root}/timerwheel", slot_count, precision_ms)
        self._check_file = TimerCheckFile(files, root)
        self._lock = Lock()  # of one write at a time
        self._state_count = self._written_count = 0
        self.linked: dict[int, int] = {}  # of units that were found behind the checkpoint: physical offset -> slot
        self.version = (0, 0, 0)  # state, time, counter, as RocketMQ's DataVersion

    def open(self, physical_end: int) -> TimerProgress | None:
        """Read the files; None when wheel and log don't fit together and must be made again from the wheel's topic.

        ``physical_end``: the commit log's end. Raises OSError.
        """
        fields = self._check_file.load()
        self.version = (fields.get("stateVersion", 0), fields.get("timestamp", 0), fields.get("counter", 0))
        progress, durable_end = self.checkpoint(), fields.get(LOG_FLUSHED, 0)
        self.log.load(durable_end, physical_end)
        has_wheel = self.wheel.load()
        if self.log.end < durable_end or (not has_wheel and durable_end > self.log.begin):
            return None
        if any(slot.last >= self.log.end for _, slot in self.wheel.slots()):
            return None
        self.linked = {}
        for position, unit in self.log.units(max(durable_end, self.log.begin)):
            self._link(position, unit)
            self.linked[unit.physical_offset] = unit.slot_ms
        return progress

    def checkpoint(self) -> TimerProgress:
        """Return the progress that the checkpoint on the disk names."""
        fields = self._check_file.load()
        queue_offset = min(fields.get(QUEUE_OFFSET, 0), fields.get(QUEUE_OFFSET_OF_MASTER, 0))
        return TimerProgress(max(fields.get(LAST_READ_TIME, 0), 0), max(queue_offset, 0))

    def add(self, units: Sequence[TimerUnit]) -> None:
        """Append units to the log and to their slots. Their ``previous`` is set here. Raises OSError."""
        self.add_packed([pack_unit(unit) for unit in units])

    def add_packed(self, units: Sequence[PackedUnit]) -> None:
        """As :meth:`add`."""
        slots: dict[int, list[int]] = {}  # first and last position, count, magic
        linked = []
        for position, (slot_ms, count, fields) in zip(self.log.next_positions(len(units)), units, strict=True):
            slot = slots.get(slot_ms)
            if slot is None:
                slot = slots[slot_ms] = list(self.wheel.slot(slot_ms) or (position, NO_POSITION, 0, 0))
            linked.append(LINK.pack(UNIT_BYTES, slot[1]) + fields)
            slot[1] = position
            slot[2] += count
        self.log.append(linked)
        for slot_ms, slot in slots.items():
            self.wheel.put(slot_ms, Slot(*slot))

    def rewrite(self, slot_ms: int, units: Sequence[TimerUnit]) -> None:
        """Let a slot hold these units and no others. Raises OSError."""
        self.wheel.forget(slot_ms)
        self.add(units)

    def chain(self, last: int) -> Iterator[tuple[int, TimerUnit]]:
        """Yield (position, unit) of a slot, its last one first. A position that is not kept ends it. Raises OSError."""
        while last != NO_POSITION:
            unit = self.log.unit(last)
            if unit is None:
                return
            yield last, unit
            if unit.previous >= last:  # only damage can do that; following it would never end
                return
            last = unit.previous

    def waiting(self, read_ms: int) -> Iterator[TimerUnit]:
        """Yield the unit of each message that waits now in a slot from ``read_ms`` on, in the log's order.

        What is added or delivered meanwhile changes nothing. Raises OSError.
        """
        slots = {slot_ms: slot for slot_ms, slot in self.wheel.slots() if slot_ms >= read_ms}
        return self._of_slots(slots, self.log.end)

    def _of_slots(self, slots: dict[int, Slot], end: int) -> Iterator[TimerUnit]:
        for position, unit in self.log.units(min((slot.first for slot in slots.values()), default=end)):
            slot = slots.get(unit.slot_ms)
            if slot is not None and slot.first <= position <= slot.last and not unit.magic & MAGIC_DELETE:
                yield unit

    def count_from(self, read_ms: int) -> int:
        """Return how many messages wait in slots from ``read_ms`` on, as the slots count them."""
        return sum(max(slot.num, 0) for slot_ms, slot in self.wheel.slots() if slot_ms >= read_ms)

    def state(self, progress: TimerProgress, master_queue_offset: int) -> TimerState:
        """Return what there is to write now."""
        self._state_count += 1
        return TimerState(
            number=self._state_count,
            progress=TimerProgress(progress.read_ms, progress.queue_offset),
            log_end=self.log.end,
            master_queue_offset=master_queue_offset,
            version=self.version,
            slots=self.wheel.take_changes(),
        )

    def write(self, state: TimerState) -> None:
        """Bring a state to the disk: log, wheel, checkpoint, in this order. Any thread may do it. Raises OSError.

        The caller synced the commit log before. Until the checkpoint is written, the last one holds: its queue offset
        leads to the same units again.
        """
        with self._lock:
            if state.number < self._written_count:
                return
            self.log.sync()
            self.wheel.write(state.slots)
            progress = state.progress
            offsets = (progress.queue_offset, state.master_queue_offset)
            self._check_file.write((progress.read_ms, state.log_end, *offsets, *state.version))
            self._written_count = state.number

    def written(self, state: TimerState) -> None:
        """Take note of a :meth:`write` that ended well."""
        self.wheel.written(state.slots)

    def clear(self) -> None:
        """Remove wheel and log. Raises OSError."""
        self.wheel.clear()
        self.log.clear()
        self.linked.clear()

    def close(self) -> None:
        self.wheel.close()
        self.log.close()

    def _link(self, position: int, unit: TimerUnit) -> None:
        """Let the wheel know a unit that was written behind the checkpoint."""
        slot = self.wheel.slot(unit.slot_ms)
        if slot is not None and slot.last >= position:
            return
        if slot is not None and unit.previous == slot.last:
            slot = Slot(slot.first, position, slot.num + _count_of(unit), slot.magic)
        else:  # the wheel on the disk is older than the unit's chain, or newer: the slot was emptied or written again
            chain = list(self.chain(position))
            slot = Slot(chain[-1][0], position, sum(_count_of(one) for _, one in chain))
        self.wheel.put(unit.slot_ms, slot)


def _count_of(unit: TimerUnit) -> int:
    """Return what a unit adds to its slot's messages."""
    return -1 if unit.magic & MAGIC_DELETE else 1
