"""The messages between the filter server and its worker processes: on a pipe, a length and one MessagePack value."""

from __future__ import annotations

import struct
from typing import Final

import msgspec

LENGTH: Final = struct.Struct(">I")

NO_MATCH: Final = 0
MATCH: Final = 1
FAILED: Final = 2


class Compile(msgspec.Struct, tag="compile", array_like=True, frozen=True):
    """Compiles a filter under ``filter_id``. The answer is :class:`Compiled`."""

    filter_id: int
    filter_name: str
    expression: str


class FilterRecords(msgspec.Struct, tag="filter", array_like=True, frozen=True):
    """Filters records of a pull's answer, back to back. The answer is :class:`RecordOutcomes`."""

    filter_id: int
    broker_name: str
    records: bytes


class Forget(msgspec.Struct, tag="forget", array_like=True, frozen=True):
    """Drops a filter. There is no answer."""

    filter_id: int


class Compiled(msgspec.Struct, tag="compiled", array_like=True, frozen=True):
    """``error`` is empty when the filter is ready. A worker sends one of these when it has started.

    ``keeps_state`` is true for a filter that must see all messages of its subscription.
    """

    error: str = ""
    keeps_state: bool = False


class RecordOutcomes(msgspec.Struct, tag="outcomes", array_like=True, frozen=True):
    """One byte per record (NO_MATCH, MATCH, FAILED), and the error of the first that failed."""

    outcomes: bytes
    error: str = ""
    time_us: int = 0


Task = Compile | FilterRecords | Forget
Answer = Compiled | RecordOutcomes

encode = msgspec.msgpack.Encoder().encode
decode_task = msgspec.msgpack.Decoder(Task).decode
decode_answer = msgspec.msgpack.Decoder(Answer).decode


def framed(value: Task | Answer) -> bytes:
    """Encode ``value`` with its length, as the pipe carries it."""
    payload = encode(value)
    return LENGTH.pack(len(payload)) + payload
