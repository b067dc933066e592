"""Timer messages without I/O: when one is due, which slot of the wheel it takes, and the handle that recalls it.

Java: HookUtils.transformTimerMessage, TimerMessageStore.doEnqueue, RecallMessageHandle.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import NamedTuple

from pymq.model.properties import find_property

DELIVER_MS = b"TIMER_DELIVER_MS"
DELAY_MS = b"TIMER_DELAY_MS"
DELAY_SEC = b"TIMER_DELAY_SEC"
OUT_MS = b"TIMER_OUT_MS"
ENQUEUE_MS = b"TIMER_ENQUEUE_MS"
DEQUEUE_MS = b"TIMER_DEQUEUE_MS"
ROLL_TIMES = b"TIMER_ROLL_TIMES"
DELETE_KEY = b"TIMER_DEL_UNIQKEY"
# The properties that delay a message, in the order in which RocketMQ looks for them: the first one counts.
DELAYS = (DELAY_SEC, DELAY_MS, DELIVER_MS)
RECALL_TAG = "_RECALL_TAG_"
# What the broker adds to a timer message until it is delivered: out, roll times and two times of 19 digits each, names,
# separators and a queue id, beside the topic's name.
ADDED_BYTES_MAX = 200

_LONG = re.compile(rb"[+-]?[0-9]{1,19}")
_LONG_MAX = 2**63 - 1
_HANDLE_PARTS = 5
_HANDLE_VERSION = "v1"
HANDLE_LENGTH_MAX = 1024


def delay_of(raw: bytes) -> tuple[bytes, bytes] | None:
    """Return name and text of the delay that makes a message with these properties a timer message; None for none.

    A message with TIMER_OUT_MS was a timer before, for example one that a consumer gave back.
    """
    if b"TIMER_DEL" not in raw or (OUT_MS in raw and find_property(raw, OUT_MS) is not None):
        return None
    return _first_delay(raw)


def is_delayed(raw: bytes) -> bool:
    """Return True when these properties make a timer message: a delay, no TIMER_OUT_MS."""
    return delay_of(raw) is not None


def delay_ends_ms(name: bytes, text: bytes, now_ms: int) -> int:
    """Return when a message with this delay is due (Unix ms). Raises ValueError when that is no 64-bit number."""
    if not _LONG.fullmatch(text) or abs(int(text)) > _LONG_MAX:
        raise ValueError(f"{name.decode()} is {text[:30].decode('utf-8', 'replace')!r}: write a whole number")
    number = int(text)
    if name == DELIVER_MS:
        return number
    return now_ms + (number * 1000 if name == DELAY_SEC else number)


def requested_ms(raw: bytes, now_ms: int) -> int:
    """Return when a message with these properties is due (Unix ms). Raises ValueError when that is no 64-bit number."""
    found = _first_delay(raw)
    if found is None:
        raise ValueError("the message has none of the properties " + ", ".join(name.decode() for name in DELAYS))
    return delay_ends_ms(*found, now_ms)


def _first_delay(raw: bytes) -> tuple[bytes, bytes] | None:
    for name in DELAYS:
        if name in raw and (text := find_property(raw, name)) is not None:
            return name, text
    return None


def out_ms(deliver_ms: int, precision_ms: int) -> int:
    """Return TIMER_OUT_MS: the begin of the slot whose end is the first multiple not before ``deliver_ms``."""
    return (deliver_ms - 1) // precision_ms * precision_ms


def slot_ms(due_slot_ms: int, write_ms: int, window_ms: int, precision_ms: int) -> tuple[int, bool]:
    """Return the slot that a message takes now, and whether it rolls on from there.

    ``due_slot_ms``: the slot in which it is due; ``write_ms``: now, rounded down to the precision; ``window_ms``: how
    far ahead a message may wait. One that is due a little behind the window rolls at its half, to leave time.
    """
    ahead_ms = due_slot_ms - write_ms
    if ahead_ms < window_ms:
        return due_slot_ms, False
    window_slots = window_ms // precision_ms
    if ahead_ms - window_ms < window_slots // 3 * precision_ms:
        return write_ms + window_slots // 2 * precision_ms, True
    return write_ms + window_ms, True


def due_after_ms(raw: bytes, out: int, precision_ms: int, store_ms: int) -> int:
    """Return how long after the slot ``out`` begins the message is due: 1 to ``precision_ms``.

    A relative delay counts from the first record's store time; a rolled record has another, so it is due at the end.
    """
    try:
        due_ms = requested_ms(raw, store_ms)
    except ValueError:
        return precision_ms
    after_ms = due_ms - out
    return after_ms if 0 < after_ms <= precision_ms else precision_ms


def delete_key(topic: str, unique_key: str) -> str:
    """Return what a recall names: the value of TIMER_DEL_UNIQKEY (Java: TimerMessageStore.buildDeleteKey)."""
    return f"{topic}+{unique_key}"


class RecallHandle(NamedTuple):
    """What a send's answer carries for a timer message. ``deliver_ms`` is one ms after the begin of its slot."""

    topic: str
    broker_name: str
    deliver_ms: int
    unique_key: str

    def encode(self) -> str:
        """Return the text: URL-safe base64 with padding of ``v1 topic broker time key``."""
        return urlsafe_b64encode(" ".join((_HANDLE_VERSION, *map(str, self))).encode()).decode()


def decode_handle(text: str) -> RecallHandle:
    """The inverse of :meth:`RecallHandle.encode`. A time that is no number is -1. Raises ValueError."""
    if not text or len(text) > HANDLE_LENGTH_MAX:
        raise ValueError(f"the recall handle has {len(text)} characters: give 1 to {HANDLE_LENGTH_MAX}")
    padded = text + "=" * (-len(text) % 4)
    if not re.fullmatch(r"[A-Za-z0-9_-]+={0,3}", padded):
        raise ValueError("the recall handle is not URL-safe base64: give the text that the send returned")
    try:
        parts = urlsafe_b64decode(padded).decode().split(" ")
    except ValueError as error:
        raise ValueError("the recall handle is base64, but of no text: give the text that the send returned") from error
    if parts[0] != _HANDLE_VERSION or len(parts) < _HANDLE_PARTS:
        raise ValueError(
            "the recall handle does not hold version v1, topic, broker, time and key: give the text that the send "
            "returned"
        )
    _, topic, broker_name, time_text, unique_key = parts[:_HANDLE_PARTS]
    deliver_ms = int(time_text) if re.fullmatch(r"[0-9]{1,18}", time_text) else -1
    return RecallHandle(topic, broker_name, deliver_ms, unique_key)
