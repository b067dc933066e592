"""Builds request frames in bulk, so that generating load costs a fraction of serving it.

All frames of a stream have the same length. They are the rows of a numpy array, and the columns that differ between
frames (opaque, queue, unique key, born time) are patched for thousands of rows at once.
"""

import json
import struct
import time
from collections.abc import Mapping
from functools import cache

import numpy as np
import numpy.typing as npt

from pymq.model.record import encode_batch_entry
from pymq.wire.headers.pull import PULL_COUNT_DEFAULT

SEND_MESSAGE_V2 = 310
SEND_BATCH_MESSAGE = 320
PULL_MESSAGE = 11

JSON_HEADER = 0
BINARY_HEADER = 1
LANGUAGE_JAVA = 0
VERSION_5_3_3 = 479

OPAQUE_FIRST = 10_000_000  # eight digits from the start: a JSON number can't have leading zeros
OPAQUE_COUNT = 80_000_000
ROWS_PER_CHUNK = 2048

TEXT_NUMBERS = 1_000_000
_WORDS = [b"order", b"customer", b"amount", b"country", b"price", b"paid", b"shipped", b"returned"]

_DIGITS = np.frombuffer(b"0123456789", dtype=np.uint8)
_HEX = np.frombuffer(b"0123456789ABCDEF", dtype=np.uint8)

_OPAQUE_MARK = 87654321
_QUEUE_MARK = "7"
_BORN_MARK = "1234567890123"
_KEY_PREFIX = "FD000000000000000000024A"  # 24 of the 32 digits stay, the last eight are a counter
_KEY_MARK = "5A5A5A5A"


@cache
def words() -> npt.NDArray[np.uint8]:
    """Returns a long text of words and numbers, from which bodies are cut."""
    numbers = np.random.default_rng(7).integers(0, 1 << 24, TEXT_NUMBERS)
    text = b"".join(b"%s=%d;" % (_WORDS[int(number) % len(_WORDS)], number) for number in numbers)
    return np.frombuffer(text, dtype=np.uint8)


def unique_key(mark: str = _KEY_MARK) -> str:
    """Returns a client message id of 32 hex digits whose last eight are ``mark``."""
    return _KEY_PREFIX + mark


def encode_json(code: int, opaque: int, ext: Mapping[str, str], body: bytes = b"", flag: int = 0) -> bytes:
    """Returns a request frame with a JSON header, its keys in the order in which the Java client writes them."""
    header = json.dumps(
        {
            "code": code,
            "extFields": dict(ext),
            "flag": flag,
            "language": "JAVA",
            "opaque": opaque,
            "serializeTypeCurrentRPC": "JSON",
            "version": VERSION_5_3_3,
        },
        separators=(",", ":"),
    ).encode()
    return struct.pack(">II", 4 + len(header) + len(body), len(header)) + header + body


def encode_binary(code: int, opaque: int, ext: Mapping[str, str], body: bytes = b"", flag: int = 0) -> bytes:
    """Returns a request frame with the binary header; ``code`` must fit in 16 bits."""
    fields = bytearray()
    for key, value in ext.items():
        raw_key, raw_value = key.encode(), value.encode()
        fields += struct.pack(">H", len(raw_key)) + raw_key + struct.pack(">I", len(raw_value)) + raw_value
    header = struct.pack(">HBHiiII", code, LANGUAGE_JAVA, VERSION_5_3_3, opaque, flag, 0, len(fields)) + bytes(fields)
    head = struct.pack(">II", 4 + len(header) + len(body), BINARY_HEADER << 24 | len(header))
    return head + header + body


def batch_body(entries: int, body: bytes) -> bytes:
    """Returns the body of a batch send: ``entries`` messages, each with its own unique key (marked for patching)."""
    properties = f"UNIQ_KEY\x01{unique_key()}\x02WAIT\x01true\x02TAGS\x01TagA\x02".encode()
    return encode_batch_entry(body, properties) * entries


class SendStream:
    """An endless stream of send frames to one topic, round robin over its queues.

    Args:
        topic: the topic, already created with ``queues`` write queues (at most 10: a queue id is one digit).
        body_bytes: size of each message's body.
        header: ``JSON_HEADER`` or ``BINARY_HEADER``.
        batch: messages per frame; 1 sends code 310, more sends code 320.
        first_number: number of the first message; streams of one run must not overlap, or unique keys repeat.
        properties: added to those of each single message.
        text: bodies of words and numbers, which compress to about a half, instead of one letter; 16 bytes or more.
    """

    def __init__(
        self,
        topic: str,
        queues: int,
        body_bytes: int,
        header: int = JSON_HEADER,
        batch: int = 1,
        first_number: int = 0,
        properties: str = "",
        text: bool = False,
    ) -> None:
        assert 1 <= queues <= 10
        self.batch = batch
        self._queues = queues
        self._number = first_number
        self._frame_number = 0
        body = b"x" * body_bytes
        ext = self._ext(topic, properties)
        payload = batch_body(batch, body) if batch > 1 else body
        code = SEND_BATCH_MESSAGE if batch > 1 else SEND_MESSAGE_V2
        encode = encode_binary if header == BINARY_HEADER else encode_json
        frame = encode(code, _OPAQUE_MARK, ext, payload)
        self.frame_bytes = len(frame)
        self._binary = header == BINARY_HEADER
        opaque_mark = struct.pack(">i", _OPAQUE_MARK) if self._binary else str(_OPAQUE_MARK).encode()
        self._opaque_at = _only(frame, opaque_mark)
        self._queue_at = _only(frame, self._queue_mark())
        self._queue_at += len(self._queue_mark()) - (2 if not self._binary else 1)
        self._born_at = _only(frame, _BORN_MARK.encode())
        self._keys_at = _all(frame, _KEY_MARK.encode())
        self._bodies_at = _all(frame, body) if text else []
        self._body_bytes = body_bytes
        self._rows: npt.NDArray[np.uint8] = np.tile(np.frombuffer(frame, dtype=np.uint8), (ROWS_PER_CHUNK, 1))
        self._random = np.random.default_rng(first_number)
        self._chunk = b""
        self._at = 0

    def _ext(self, topic: str, added: str) -> dict[str, str]:
        # Java's batch has its own unique key; keys and tags are in the entries.
        tags = "" if self.batch > 1 else "TAGS\x01TagA\x02"
        properties = f"UNIQ_KEY\x01{unique_key()}\x02WAIT\x01true\x02{tags}{added}"
        return {
            "a": "pymq_bench",
            "b": topic,
            "c": "TBW102",
            "d": "4",
            "e": _QUEUE_MARK,
            "f": "0",
            "g": _BORN_MARK,
            "h": "0",
            "i": properties,
            "j": "0",
            "k": "false",
            "m": "true" if self.batch > 1 else "false",
            "n": "broker-a",
        }

    def _queue_mark(self) -> bytes:
        if self._binary:
            return b"\x00\x01e\x00\x00\x00\x01" + _QUEUE_MARK.encode()
        return b'"e":"' + _QUEUE_MARK.encode() + b'"'

    def take(self, frames: int) -> memoryview:
        """Returns the bytes of the next ``frames`` frames, or of fewer when the current chunk ends."""
        if self._at >= len(self._chunk):
            self._refill()
        end = min(self._at + frames * self.frame_bytes, len(self._chunk))
        view = memoryview(self._chunk)[self._at : end]
        self._at = end
        return view

    def _refill(self) -> None:
        rows = self._rows
        index = np.arange(self._frame_number, self._frame_number + ROWS_PER_CHUNK, dtype=np.int64)
        opaque = OPAQUE_FIRST + index % OPAQUE_COUNT
        if self._binary:
            rows[:, self._opaque_at : self._opaque_at + 4] = opaque.astype(">i4").view(np.uint8).reshape(-1, 4)
        else:
            _write_digits(rows, self._opaque_at, opaque, 8, 10)
        rows[:, self._queue_at] = _DIGITS[index % self._queues]
        born = f"{int(time.time() * 1000):013d}".encode()
        rows[:, self._born_at : self._born_at + 13] = np.frombuffer(born, dtype=np.uint8)
        # A batch has one key in its header and one per entry; a single send has only one.
        keys_per_frame = len(self._keys_at)
        first = self._number + np.arange(ROWS_PER_CHUNK, dtype=np.int64) * keys_per_frame
        for place, at in enumerate(self._keys_at):
            _write_digits(rows, at, first + place, 8, 16)
        for at in self._bodies_at:
            begin = self._random.integers(0, len(words()) - self._body_bytes, ROWS_PER_CHUNK)
            rows[:, at : at + self._body_bytes] = words()[begin[:, None] + np.arange(self._body_bytes)]
        self._number += ROWS_PER_CHUNK * keys_per_frame
        self._frame_number += ROWS_PER_CHUNK
        self._chunk = rows.tobytes()
        self._at = 0


def batch_fields(topic: str, queue: int, born_ms: int) -> dict[str, str]:
    """Returns the fields of a batch send whose entries have all properties."""
    return {
        "a": "pymq_bench",
        "b": topic,
        "c": "TBW102",
        "d": "4",
        "e": str(queue),
        "f": "0",
        "g": str(born_ms),
        "h": "0",
        "i": "WAIT\x01true\x02",
        "j": "0",
        "k": "false",
        "m": "true",
        "n": "broker-a",
    }


def pull_frame(
    opaque: int,
    topic: str,
    group: str,
    queue: int,
    offset: int,
    limit: int,
    suspend_ms: int = 0,
    sql: str | None = None,
    filter_class: str | None = None,
    header: int = JSON_HEADER,
) -> bytes:
    """Returns a pull as the Java client's pull consumer sends it; ``suspend_ms`` above zero makes it a long poll.

    ``sql``: an SQL92 expression instead of all tags; ``filter_class``: the filter that a filter server runs.
    """
    subscription_in_request, may_suspend, class_filter = 4, 2, 8
    ext = {
        "queueId": str(queue),
        "maxMsgBytes": "2147483647",
        "maxMsgNums": str(limit),
        "sysFlag": str(
            subscription_in_request | (may_suspend if suspend_ms else 0) | (class_filter if filter_class else 0)
        ),
        "suspendTimeoutMillis": str(suspend_ms),
        "commitOffset": "0",
        "bname": "broker-a",
        "subscription": filter_class or sql or "*",
        "topic": topic,
        "queueOffset": str(offset),
        "expressionType": "SQL92" if sql else "TAG",
        "subVersion": "0",
        "consumerGroup": group,
    }
    if limit > PULL_COUNT_DEFAULT:
        ext["pymqMaxMsgNums"] = str(limit)  # as PyMQ's readers of many messages; Apache gives 32
    encode = encode_binary if header == BINARY_HEADER else encode_json
    return encode(PULL_MESSAGE, opaque, ext)


def _write_digits(rows: npt.NDArray[np.uint8], at: int, numbers: npt.NDArray[np.int64], width: int, base: int) -> None:
    alphabet = _HEX if base == 16 else _DIGITS
    rest = numbers.copy()
    for column in range(at + width - 1, at - 1, -1):
        rows[:, column] = alphabet[rest % base]
        rest //= base


def _all(frame: bytes, mark: bytes) -> list[int]:
    found: list[int] = []
    at = frame.find(mark)
    while at >= 0:
        found.append(at)
        at = frame.find(mark, at + len(mark))
    return found


def _only(frame: bytes, mark: bytes) -> int:
    places = _all(frame, mark)
    assert len(places) == 1, (mark, places)
    return places[0]
