"""Splits a byte stream into answers and counts the successful ones, almost as fast as bytes.count."""

import json
import re
import struct
from typing import Any

from pymq.model.layout import RECORD_QUEUE_OFFSET

_LENGTH = struct.Struct(">I")
_CODE_MARK = b'{"code":0,'
_NEXT_OFFSET = re.compile(rb'"nextBeginOffset"\s*:\s*"?(\d+)')
_OPAQUE = re.compile(rb'"opaque"\s*:\s*(-?\d+)')
_CODE = re.compile(rb'"code"\s*:\s*(-?\d+)')
BINARY_HEADER = 1


class AnswerCounter:
    """Counts send answers and keeps the remark of the first refusal."""

    def __init__(self) -> None:
        self.frames = 0
        self.succeeded = 0
        self.first_refusal = ""
        self._tail = b""

    def feed(self, data: bytes) -> int:
        """Takes received bytes; returns the number of answers they completed."""
        buffer = self._tail + data if self._tail else data
        size = len(buffer)
        at = frames = binary_good = 0
        starts: list[int] = []
        while at + 4 <= size:
            end = at + 4 + int.from_bytes(buffer[at : at + 4], "big")
            if end > size:
                break
            starts.append(at)
            frames += 1
            if buffer[at + 4] == BINARY_HEADER and not (buffer[at + 8] or buffer[at + 9]):
                binary_good += 1
            at = end
        self._tail = buffer[at:]
        self.frames += frames
        # Send answers have no body, so the mark can only be the start of a header.
        marked = binary_good + buffer.count(_CODE_MARK, 0, at)
        self.succeeded += marked if marked == frames else self._count_slowly(buffer, starts)
        return frames

    def _count_slowly(self, buffer: bytes, starts: list[int]) -> int:
        good = 0
        for start in starts:
            code, remark = header_code(buffer, start)
            if code == 0:
                good += 1
            elif not self.first_refusal:
                self.first_refusal = f"code {code}: {remark}"
        return good


class FrameCutter:
    """Splits a byte stream into frames, each without its length field."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Takes received bytes; returns the frames they completed."""
        self._buffer += data
        frames: list[bytes] = []
        at, size = 0, len(self._buffer)
        while at + 4 <= size:
            end = at + 4 + _LENGTH.unpack_from(self._buffer, at)[0]
            if end > size:
                break
            frames.append(bytes(self._buffer[at + 4 : end]))
            at = end
        del self._buffer[:at]
        return frames


def header_code(buffer: bytes, start: int) -> tuple[int, str]:
    """Returns code and remark of the frame whose length field is at ``start``, with a JSON or binary header."""
    head = _LENGTH.unpack_from(buffer, start + 4)[0]
    if head >> 24 == BINARY_HEADER:
        code = int(struct.unpack_from(">h", buffer, start + 8)[0])
        size = _LENGTH.unpack_from(buffer, start + 21)[0]
        return code, buffer[start + 25 : start + 25 + size].decode("utf-8", "replace") if code else ""
    header = json.loads(buffer[start + 8 : start + 8 + (head & 0xFFFFFF)])
    return int(header["code"]), str(header.get("remark", ""))


def split_answer(frame: bytes) -> tuple[dict[str, Any], bytes]:
    """Returns header and body of one JSON answer (without its length field)."""
    size = _LENGTH.unpack_from(frame, 0)[0] & 0xFFFFFF
    header: dict[str, Any] = json.loads(frame[4 : 4 + size])
    return header, frame[4 + size :]


def pull_answer(frame: bytes) -> tuple[int, int, int]:
    """Returns ``(code, next offset, start of the body)`` of a pull answer; searches the JSON header without parsing."""
    end = 4 + (_LENGTH.unpack_from(frame, 0)[0] & 0xFFFFFF)
    code = _CODE.search(frame, 4, end)
    offset = _NEXT_OFFSET.search(frame, 4, end)
    assert code is not None
    return int(code[1]), int(offset[1]) if offset else -1, end


def opaque_of(frame: bytes) -> int:
    """Returns the opaque of an answer with a JSON header."""
    found = _OPAQUE.search(frame, 4)
    assert found is not None
    return int(found[1])


def stored_offsets(body: bytes) -> list[int]:
    """Returns the queue offsets of the consecutive records in a pull's body."""
    offsets: list[int] = []
    at = 0
    while at < len(body):
        size, offset = RECORD_QUEUE_OFFSET.unpack_from(body, at)
        offsets.append(offset)
        at += size
    return offsets
