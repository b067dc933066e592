"""Records of the wheel's topic: what the wheel needs of one, and the message that is delivered or rolled in its place.

Java: TimerMessageStore.doEnqueue, convert.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from pymq.broker.timers.noted_puts import Put
from pymq.model import timers
from pymq.model.javahash import tags_code
from pymq.model.names import TIMER_TOPIC
from pymq.model.properties import REAL_QUEUE_ID, REAL_TOPIC, append_properties, find_property, without_properties
from pymq.model.record import StoredMessage
from pymq.store.timer.timer_store import (
    MAGIC_DEFAULT,
    MAGIC_DELETE,
    MAGIC_ROLL,
    NO_POSITION,
    PACKED_FIELDS,
    PackedUnit,
    TimerUnit,
)

NEVER_ENQUEUED_MS = 2**63 - 1  # TIMER_ENQUEUE_MS of a message that was due before it reached the wheel
_REAL_TOPIC, _REAL_QUEUE = REAL_TOPIC.encode(), REAL_QUEUE_ID.encode()
_NEWEST = re.compile(rb"TIMER_OUT_MS\x01([0-9]{1,18})\x02REAL_TOPIC\x01([^\x01\x02]+)\x02REAL_QID\x01[0-9]+\x02")
_OUT = timers.OUT_MS.decode()
_pack = PACKED_FIELDS.pack


class WheelTimes(NamedTuple):
    """What decides about a record's slot, in ms: the precision, and how far ahead a message may wait."""

    precision_ms: int
    window_ms: int


class Planned(NamedTuple):
    """A record's unit, and the topic that counts it."""

    unit: TimerUnit
    real_topic: str


def plan(message: StoredMessage, write_ms: int, times: WheelTimes, begin_ms: int = 0) -> Planned:
    """Return the unit of a record of the wheel's topic. ``write_ms``: now, rounded down to the precision.

    When a record rolls over depends on when it was stored: so a master and its slaves choose the same slot, at whatever
    time each of them reads the record. If that slot is before ``begin_ms``, it depends on ``write_ms``.
    Raises ValueError for a record that no broker wrote: it can't be delivered.
    """
    raw = message.raw_properties
    out, real_topic = _target(raw)
    due_slot_ms = out // times.precision_ms * times.precision_ms
    stored_ms = message.store_timestamp_ms // times.precision_ms * times.precision_ms
    slot_ms, rolls = timers.slot_ms(due_slot_ms, stored_ms, times.window_ms, times.precision_ms)
    if rolls and slot_ms < begin_ms:
        slot_ms, rolls = timers.slot_ms(due_slot_ms, max(write_ms, begin_ms), times.window_ms, times.precision_ms)
    magic = MAGIC_DEFAULT
    after_ms = 0
    if rolls:
        magic |= MAGIC_ROLL
    else:
        rolled = b"TIMER_ROLL_TIMES\x01" in raw
        store_ms = -1 if rolled else message.store_timestamp_ms
        after_ms = timers.due_after_ms(raw, due_slot_ms, times.precision_ms, store_ms)
    if b"TIMER_DEL_UNIQKEY\x01" in raw:
        magic |= MAGIC_DELETE
    unit = TimerUnit(
        previous=NO_POSITION,
        magic=magic,
        write_ms=write_ms,
        delay_ms=slot_ms - write_ms,
        physical_offset=message.physical_offset,
        size_bytes=message.size_bytes,
        topic_hash=tags_code(real_topic),
        due_after_ms=after_ms if after_ms < times.precision_ms else 0,
    )
    return Planned(unit, real_topic)


def noted_delay_max_ms(times: WheelTimes) -> int:
    """Return the longest delay of a message that surely doesn't roll over, whenever in a slot it is put."""
    return times.window_ms - 2 * times.precision_ms


def plan_puts(puts: Sequence[Put], times: WheelTimes) -> list[PackedUnit]:
    """Return the units that :func:`plan` returns for messages when they are put. None of them rolls over."""
    precision_ms = times.precision_ms
    units: list[PackedUnit] = []
    last: tuple[str, int, int] | None = None
    slot_ms = write_ms = topic_hash = after_ms = 0
    for physical_offset, size_bytes, real_topic, deliver_ms, now_ms in puts:
        if (real_topic, deliver_ms, now_ms) != last:  # many have the same
            last = real_topic, deliver_ms, now_ms
            slot_ms = (deliver_ms - 1) // precision_ms * precision_ms  # out_ms, written out
            write_ms = now_ms // precision_ms * precision_ms
            topic_hash, after_ms = tags_code(real_topic), (deliver_ms - slot_ms) % precision_ms
        fields = _pack(MAGIC_DEFAULT, write_ms, slot_ms - write_ms, physical_offset, size_bytes, topic_hash, after_ms)
        units.append((slot_ms, 1, fields))
    return units


def _target(raw: bytes) -> tuple[int, str]:
    """Return TIMER_OUT_MS and REAL_TOPIC. Raises ValueError without them or REAL_QID."""
    at = raw.rfind(b"TIMER_OUT_MS\x01")
    found = _NEWEST.fullmatch(raw, at) if at >= 0 else None  # what TimerPuts appends, if nothing follows it
    if found is not None:
        return int(found[1]), found[2].decode("utf-8", "replace")
    text, topic = find_property(raw, timers.OUT_MS) or b"", find_property(raw, _REAL_TOPIC) or b""
    if not text.isdigit() or len(text) > 18 or not topic or not (find_property(raw, _REAL_QUEUE) or b"").isdigit():
        raise ValueError(f"it lacks TIMER_OUT_MS, REAL_TOPIC or REAL_QID (TIMER_OUT_MS is {text[:30]!r})")
    return int(text), topic.decode("utf-8", "replace")


def is_of_slot(message: StoredMessage, size_bytes: int, slot_ms: int, end_ms: int, *, rolls: bool) -> bool:
    """Return False when another record than the unit's stands at its place, after the log lost its end.

    A record is due in its unit's slot, or behind it when it rolls: no damage of the files makes one early.
    """
    if message.topic != TIMER_TOPIC or message.size_bytes != size_bytes:
        return False
    text = message.properties.get(_OUT, "")
    return text.isdecimal() and (slot_ms <= int(text[:18]) if rolls else slot_ms <= int(text[:18]) < end_ms)


def delivered_properties(message: StoredMessage, enqueue_ms: int, now_ms: int, *, rolls: bool) -> bytes:
    """Return the properties of the message that takes the record's place."""
    raw = without_properties(message.raw_properties, (timers.ENQUEUE_MS, timers.DEQUEUE_MS))
    added = f"TIMER_ENQUEUE_MS\x01{enqueue_ms}\x02TIMER_DEQUEUE_MS\x01{now_ms}\x02"
    if rolls:
        count = find_property(raw, timers.ROLL_TIMES) or b"0"
        raw = without_properties(raw, (timers.ROLL_TIMES,))
        added += f"TIMER_ROLL_TIMES\x01{int(count) + 1 if count.isdigit() and len(count) < 10 else 1}\x02"
    return append_properties(raw, added.encode())


def recalled_name(message: StoredMessage) -> str:
    """Return the name of the message that this recall takes back; empty for a message that is none."""
    return message.properties.get(timers.DELETE_KEY.decode(), "")


def cancelled_name(message: StoredMessage) -> str:
    """Return what a recall of this message names."""
    return timers.delete_key(message.properties.get(REAL_TOPIC, ""), message.properties.get("UNIQ_KEY", ""))
