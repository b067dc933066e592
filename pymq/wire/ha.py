"""The bytes of the HA connection, both ways, without I/O. Java: DefaultHAConnection and DefaultHAClient.

A slave sends 64-bit numbers: how far it has the log. A master sends frames: a physical offset, a size, and so many
bytes of the log; a frame without any is a heartbeat. Everything is big endian, and nothing is aligned to records.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from pymq.errors import ProtocolViolation

_REPORT = struct.Struct(">q")
_HEAD = struct.Struct(">qi")
REPORT_SIZE_BYTES = _REPORT.size
HEAD_SIZE_BYTES = _HEAD.size
# RocketMQ's slave reads into a buffer of 4 MiB and waits for whole frames: a longer one would hang it for good.
BODY_BYTES_MAX = 4 * 1024 * 1024 - HEAD_SIZE_BYTES
# 64 PiB: no log goes further, while eight bytes of text or of a TLS hello do.
OFFSET_MAX = 1 << 56


def encode_report(offset: int) -> bytes:
    """What a slave sends: how far it has the log, or the (negative) token of its joining."""
    return _REPORT.pack(offset)


def encode_head(start: int, size: int) -> bytes:
    """What stands before ``size`` bytes of the log from ``start`` on; a heartbeat with none."""
    return _HEAD.pack(start, size)


class Reports(NamedTuple):
    """What came from a slave. ``token``: only in the first ones, a negative number; ``offset``: the newest report;
    None for what did not come. ``went_back``: a report was below one before it."""

    token: int | None
    offset: int | None
    went_back: bool = False


NO_REPORTS = Reports(None, None)


class ReportReader:
    """The master's side of the reading."""

    __slots__ = ("_is_first", "_last", "_rest")

    def __init__(self) -> None:
        self._rest = b""
        self._is_first = True
        self._last = 0

    def feed(self, data: bytes) -> Reports:
        """What ``data`` completes. Raises ProtocolViolation for a number that can't be an offset."""
        if self._rest:
            data = self._rest + data
        whole = len(data) // REPORT_SIZE_BYTES * REPORT_SIZE_BYTES
        self._rest = data[whole:]
        if not whole:
            return NO_REPORTS
        offsets = struct.unpack_from(f">{whole // REPORT_SIZE_BYTES}q", data)
        token = None
        if self._is_first:
            self._is_first = False
            if offsets[0] < 0:
                token, offsets = offsets[0], offsets[1:]
            elif offsets[0] > OFFSET_MAX:
                raise ProtocolViolation("ha-report", f"it began with {_shown(data)}, and no slave does that")
        went_back = False
        for offset in offsets:
            if not 0 <= offset <= OFFSET_MAX:
                raise ProtocolViolation("ha-report", f"a slave reported offset {offset}, allowed are 0 to {OFFSET_MAX}")
            went_back = went_back or offset < self._last
            self._last = offset
        return Reports(token, self._last if offsets else None, went_back)


def _shown(data: bytes) -> str:
    """The first bytes as numbers, and as text where they are some."""
    first = data[:REPORT_SIZE_BYTES]
    text = "".join(chr(byte) if 32 <= byte < 127 and byte != ord("'") else "." for byte in first)
    return f"the bytes '{first.hex(' ')}' ('{text}')"


class Piece(NamedTuple):
    """Log bytes from the physical offset ``start`` on: a frame's, or a part of them.

    Without ``data``: a heartbeat, which says that the master sends from ``start`` on next.
    """

    start: int
    data: memoryview


class FrameReader:
    """The slave's side of the reading. Bytes are handed on as they come: no frame is ever collected."""

    __slots__ = ("_at", "_left", "_rest", "_segment_size")

    def __init__(self, segment_size_bytes: int) -> None:
        """``segment_size_bytes``: of this broker's log; a frame never goes beyond a segment's end."""
        self._segment_size = segment_size_bytes
        self._rest = b""  # the part of a head that has come
        self._at = 0
        self._left = 0  # bytes of the frame under way that are still to come

    def feed(self, data: bytes) -> list[Piece]:
        """What ``data`` holds, in order. Raises ProtocolViolation for a frame that can't be; what came before it is
        lost then, and sent again on the next connection."""
        view = memoryview(data)
        pieces: list[Piece] = []
        at, end = 0, len(data)
        while at < end:
            if not self._left:
                missing = HEAD_SIZE_BYTES - len(self._rest)
                if end - at < missing:
                    self._rest += data[at:]
                    break
                start, size = _HEAD.unpack(self._rest + data[at : at + missing])
                self._rest = b""
                at += missing
                self._check(start, size)
                self._at, self._left = start, size
                if not size:
                    pieces.append(Piece(start, view[0:0]))
                    continue
            size = min(self._left, end - at)
            if size:
                pieces.append(Piece(self._at, view[at : at + size]))
                at += size
                self._at += size
                self._left -= size
        return pieces

    def _check(self, start: int, size: int) -> None:
        if not 0 <= size <= BODY_BYTES_MAX:
            raise ProtocolViolation("ha-size", f"a frame of {size} log bytes, allowed are 0 to {BODY_BYTES_MAX}")
        if not 0 <= start <= OFFSET_MAX:
            raise ProtocolViolation("ha-offset", f"a frame of offset {start}, allowed are 0 to {OFFSET_MAX}")
        segment = self._segment_size
        if size and start // segment != (start + size - 1) // segment:
            raise ProtocolViolation(
                "ha-segment",
                f"a frame of offsets {start} to {start + size} goes beyond a segment of {segment} bytes: "
                f"is mappedFileSizeCommitLog another on the master?",
            )
