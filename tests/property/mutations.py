"""Damages captured frames as a broken or hostile peer might, from one seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

INTERESTING_SIZES = (
    0,
    1,
    3,
    4,
    7,
    8,
    127,
    128,
    255,
    256,
    32767,
    32768,
    65535,
    65536,
    0x7FFFFFFF,
    0x80000000,
    0xFFFFFFFF,
)
TOKENS = (
    b"{",
    b"}",
    b"[",
    b"]",
    b'"',
    b",",
    b":",
    b"null",
    b"true",
    b"-1",
    b"1e99",
    b"9" * 30,
    b"\\u0000",
    b"\\ud800",
    b"\xff",
    b"\x00",
    b"\x01",
    b"\x02",
    b"extFields",
    b"code",
)


class Mutator:
    """``mutate`` returns a damaged copy of one of the payloads (frames without their length)."""

    def __init__(self, payloads: Sequence[bytes], seed: int) -> None:
        self._payloads = payloads
        self._rng = random.Random(seed)
        self._ways: list[Callable[[bytearray], None]] = [
            *[self._set_letter] * 9,  # most other damage breaks the JSON and stops at the parser
            self._flip_bits,
            self._set_bytes,
            self._set_number,
            self._cut,
            self._drop,
            self._double,
            self._insert_token,
            self._splice,
            self._move_header_end,
        ]

    def mutate(self) -> bytes:
        raw = bytearray(self._rng.choice(self._payloads))
        if self._rng.random() < 0.6 and len(raw) >= 4:
            return self._mutate_header(raw)
        self._damage(raw)
        return bytes(raw)

    def _damage(self, raw: bytearray) -> None:
        for _ in range(self._rng.choice((1, 1, 1, 2, 3, 8))):
            self._rng.choice(self._ways)(raw)

    def _mutate_header(self, raw: bytearray) -> bytes:
        """Damage only the header and adjust its length, so that only the header's reader can notice."""
        end = 4 + int.from_bytes(raw[1:4], "big")
        header, body = raw[4:end], raw[end:]
        self._damage(header)
        return bytes(raw[:1] + len(header).to_bytes(3, "big") + header + body)

    def _at(self, raw: bytearray) -> int:
        # Most decisions depend on the header: it gets half of all damage.
        end = len(raw)
        if self._rng.random() < 0.5:
            end = min(end, 4 + int.from_bytes(raw[1:4], "big"))
        return self._rng.randrange(end) if end else 0

    def _flip_bits(self, raw: bytearray) -> None:
        if raw:
            for _ in range(self._rng.choice((1, 2, 16))):
                raw[self._at(raw)] ^= 1 << self._rng.randrange(8)

    def _set_letter(self, raw: bytearray) -> None:
        if raw:
            raw[self._at(raw)] = self._rng.choice(b"0123456789abcxyzABCXYZ%|-_ .:")

    def _set_bytes(self, raw: bytearray) -> None:
        if raw:
            raw[self._at(raw)] = self._rng.choice((0, 1, 2, 0x20, 0x22, 0x5C, 0x7F, 0x80, 0xFF))

    def _set_number(self, raw: bytearray) -> None:
        width = self._rng.choice((1, 2, 3, 4))
        at = self._at(raw)
        number = self._rng.choice(INTERESTING_SIZES) & ((1 << 8 * width) - 1)
        raw[at : at + width] = number.to_bytes(width, "big")

    def _cut(self, raw: bytearray) -> None:
        del raw[self._at(raw) :]

    def _drop(self, raw: bytearray) -> None:
        at = self._at(raw)
        del raw[at : at + self._rng.randrange(1, 9)]

    def _double(self, raw: bytearray) -> None:
        at = self._at(raw)
        raw[at:at] = raw[at : at + self._rng.randrange(1, 64)] * self._rng.choice((1, 2, 50))

    def _insert_token(self, raw: bytearray) -> None:
        at = self._at(raw)
        raw[at:at] = self._rng.choice(TOKENS) * self._rng.choice((1, 1, 1, 9, 200))

    def _splice(self, raw: bytearray) -> None:
        other = self._rng.choice(self._payloads)
        raw[self._at(raw) :] = other[self._rng.randrange(len(other)) :]

    def _move_header_end(self, raw: bytearray) -> None:
        """Adjust the header length after other damage, so that the header's reader is reached."""
        if len(raw) >= 4:
            raw[1:4] = self._rng.randrange(max(len(raw) - 3, 1)).to_bytes(3, "big")
