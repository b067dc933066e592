"""What the filter server and its worker processes say to each other over a pipe: a length and one MessagePack value."""

from __future__ import annotations

import struct
from typing import Final

import msgspec

LENGTH: Final = struct.Struct(">I")

NO_MATCH: Final = 0
MATCH: Final = 1
FAILED: Final = 2


class Compile(msgspec.Struct, tag="compile", array_like=True, frozen=True):
    """Makes a filter known to the worker under ``filter_id``. Answered with :class:`Compiled`."""

    filter_id: int
    filter_name: str
    expression: str


class Judge(msgspec.Struct, tag="judge", array_like=True, frozen=True):
    """Records of a pull answer, back to back, to be looked at. Answered with :class:`Judged`."""

    filter_id: int
    broker_name: str
    records: bytes


class Forget(msgspec.Struct, tag="forget", array_like=True, frozen=True):
    """The filter is not needed any more. Not answered."""

    filter_id: int


class Compiled(msgspec.Struct, tag="compiled", array_like=True, frozen=True):
    """``error`` is empty when the filter is ready; a worker that has just started says so with one of these.

    ``keeps_state``: the filter must see all messages of its subscription.
    """

    error: str = ""
    keeps_state: bool = False


class Judged(msgspec.Struct, tag="judged", array_like=True, frozen=True):
    """A byte for each record (NO_MATCH, MATCH, FAILED), and what was wrong with the first that failed."""

    outcomes: bytes
    error: str = ""
    time_us: int = 0


Task = Compile | Judge | Forget
Answer = Compiled | Judged

encode = msgspec.msgpack.Encoder().encode
decode_task = msgspec.msgpack.Decoder(Task).decode
decode_answer = msgspec.msgpack.Decoder(Answer).decode


def framed(value: Task | Answer) -> bytes:
    """``value`` as it goes through the pipe."""
    payload = encode(value)
    return LENGTH.pack(len(payload)) + payload
