"""The byte protocol of the HA connection, both directions, without I/O. Java: DefaultHAConnection, DefaultHAClient.

A slave sends 64-bit numbers: the end of its log. Before them, PyMQ's slave sends its join token, and the proof that it
has the servers' credentials when the master asked for one. A master sends frames: a physical offset, a size, and that
many bytes of the log; an empty frame is a heartbeat. Before them it sends its own proof, when the slave asked for one
as it joined. Everything is big endian. Frames need not start or end at a
record.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from pymq.errors import ProtocolViolation

_REPORT = struct.Struct(">q")
_HEAD = struct.Struct(">qi")
REPORT_SIZE_BYTES = _REPORT.size
NONCE_SIZE_BYTES = 32
PROOF_SIZE_BYTES = 32  # HMAC-SHA256
# The first bytes of what each proof covers: a proof that was made for another purpose does not fit.
_PROOF_LABEL = b"PyMQ HA slave 1\0"
_MASTER_LABEL = b"PyMQ HA master1\0"
_ANSWER_LABEL = b"PyMQ HA answer1\0"
_PROVEN = struct.Struct(">qq")
HEAD_SIZE_BYTES = _HEAD.size
# RocketMQ's slave waits for whole frames in a buffer of 4 MiB: a longer frame would hang it forever.
BODY_BYTES_MAX = 4 * 1024 * 1024 - HEAD_SIZE_BYTES
# 64 PiB: no log is longer. Eight bytes of text or of a TLS hello, read as an offset, are above it.
OFFSET_MAX = 1 << 56


def encode_report(offset: int) -> bytes:
    """Encode a slave's report: the end of its log, or the (negative) token of its join."""
    return _REPORT.pack(offset)


def encode_head(start: int, size: int) -> bytes:
    """Encode the head of a frame with ``size`` bytes of the log from ``start`` on; size 0 makes a heartbeat."""
    return _HEAD.pack(start, size)


def proven_content(token: int, start: int, nonce: bytes) -> bytes:
    """Return what a slave proves: that it was given ``token`` and ``nonce``, to continue at log offset ``start``."""
    return _PROOF_LABEL + _PROVEN.pack(token, start) + nonce


def proven_by_master(token: int, start: int, challenge: bytes, nonce: bytes) -> bytes:
    """Return what a master proves before its first frame: the same joining, and the slave's ``challenge``."""
    return _MASTER_LABEL + _PROVEN.pack(token, start) + challenge + nonce


def proven_answer(challenge: bytes, body: bytes) -> bytes:
    """Return what a master proves with its answer to the request to join: all of its body."""
    return _ANSWER_LABEL + challenge + body


class Reports(NamedTuple):
    """What a slave sent, None for each part that did not come.

    ``token`` is the negative number that a connection may begin with, and ``proof`` the bytes after it, empty when none
    are asked for. ``offset`` is the newest report. ``went_back`` is true when a report was below an earlier one.
    """

    token: int | None
    offset: int | None
    went_back: bool = False
    proof: bytes = b""


NO_REPORTS = Reports(None, None)


class ReportReader:
    """Reads a slave's reports on the master's side."""

    __slots__ = ("_is_first", "_last", "_proof_size", "_rest")

    def __init__(self, proof_size: int = 0) -> None:
        """``proof_size``: bytes of the proof that follows a join token."""
        self._proof_size = proof_size
        self._rest = b""
        self._is_first = True
        self._last = 0

    def feed(self, data: bytes) -> Reports:
        """Add ``data`` and return the reports that it completes.

        Raises ProtocolViolation for a number that can't be an offset.
        """
        if self._rest:
            data = self._rest + data
        if self._is_first and len(data) >= REPORT_SIZE_BYTES:
            (token,) = _REPORT.unpack_from(data)
            if token < 0:
                return self._begin(token, data)
        return self._read(data, None, b"")

    def _begin(self, token: int, data: bytes) -> Reports:
        at = REPORT_SIZE_BYTES + self._proof_size
        if len(data) < at:
            self._rest = data
            return NO_REPORTS
        self._is_first = False
        self._rest = b""
        return self._read(data[at:], token, data[REPORT_SIZE_BYTES:at])

    def _read(self, data: bytes, token: int | None, proof: bytes) -> Reports:
        whole = len(data) // REPORT_SIZE_BYTES * REPORT_SIZE_BYTES
        self._rest = data[whole:]
        if not whole:
            return NO_REPORTS if token is None else Reports(token, None, proof=proof)
        offsets = struct.unpack_from(f">{whole // REPORT_SIZE_BYTES}q", data)
        if self._is_first:
            self._is_first = False
            if offsets[0] > OFFSET_MAX:
                raise ProtocolViolation("ha-report", f"it began with {_hex_and_text(data)}, and no slave does that")
        went_back = False
        for offset in offsets:
            if not 0 <= offset <= OFFSET_MAX:
                raise ProtocolViolation("ha-report", f"a slave reported offset {offset}, allowed are 0 to {OFFSET_MAX}")
            went_back = went_back or offset < self._last
            self._last = offset
        return Reports(token, self._last, went_back, proof)


def _hex_and_text(data: bytes) -> str:
    """Return the first bytes in hex and as text, with a dot for each byte that is not printable."""
    first = data[:REPORT_SIZE_BYTES]
    text = "".join(chr(byte) if 32 <= byte < 127 and byte != ord("'") else "." for byte in first)
    return f"the bytes '{first.hex(' ')}' ('{text}')"


class LogPiece(NamedTuple):
    """Log bytes from the physical offset ``start`` on: a whole frame's or a part of them.

    An empty ``data`` is a heartbeat: ``start`` is the offset that the master sends from next.
    """

    start: int
    data: memoryview


class FrameReader:
    """Reads a master's frames on the slave's side. Passes bytes on as they arrive, without collecting a whole frame."""

    __slots__ = ("_at", "_left", "_rest", "_segment_size")

    def __init__(self, segment_size_bytes: int) -> None:
        """``segment_size_bytes`` is the segment size of this broker's log. A frame never crosses a segment's end."""
        self._segment_size = segment_size_bytes
        self._rest = b""  # the received part of a frame's head
        self._at = 0
        self._left = 0  # bytes still to come of the current frame

    def feed(self, data: bytes) -> list[LogPiece]:
        """Return the log bytes in ``data``, in order.

        Raises ProtocolViolation for an impossible frame. The bytes before it are lost then; the next connection brings
        them again.
        """
        view = memoryview(data)
        pieces: list[LogPiece] = []
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
                    pieces.append(LogPiece(start, view[0:0]))
                    continue
            size = min(self._left, end - at)
            if size:
                pieces.append(LogPiece(self._at, view[at : at + size]))
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
                f"does mappedFileSizeCommitLog differ on the master?",
            )
