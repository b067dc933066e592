"""Message ids: the broker's offset message id and the client's unique key (Java: MessageClientIDSetter)."""

from __future__ import annotations

import struct
from datetime import UTC, datetime

from pymq.clock import Clock
from pymq.model.hosts import unpack_host

_PHYSICAL = struct.Struct(">q")


def encode_offset_id(store_host: bytes, physical_offset: int) -> str:
    """Return 32 (IPv4) or 56 (IPv6) upper-case hex digits: store host, port and commit log offset."""
    return (store_host + _PHYSICAL.pack(physical_offset)).hex().upper()


def decode_offset_id(message_id: str) -> tuple[str, int, int]:
    """Return (host, port, physical offset) of an offset message id. Raises ValueError for any other text."""
    raw = bytes.fromhex(message_id)
    if len(raw) not in (16, 28):
        raise ValueError(f"{message_id!r} is not an offset message id: it needs 32 or 56 hex digits")
    host, port = unpack_host(raw[:-8])
    return host, port, _PHYSICAL.unpack(raw[-8:])[0]


class UniqueIdMaker:
    """Makes UNIQ_KEY values: 32 hex digits of ip, pid, a hash, ms since the month's start and a counter.

    ``ip`` has 4 bytes. ``pid`` and ``salt`` distinguish processes and loaders on one host.
    """

    def __init__(self, clock: Clock, ip: bytes, pid: int, salt: int) -> None:
        self._clock = clock
        self._prefix = ((ip + b"\0\0\0\0")[:4] + struct.pack(">HI", pid & 0xFFFF, salt & 0xFFFFFFFF)).hex().upper()
        self._counter = 0
        self._month_start_ms = 0
        self._month_end_ms = 0
        self._last_ms = -1
        self._last_start = ""

    def next_id(self) -> str:
        """Return a new id, unique among 65,536 of the same millisecond."""
        start = self._start()
        self._counter = counter = (self._counter + 1) & 0xFFFF
        return f"{start}{counter:04X}"

    def next_ids(self, count: int) -> list[str]:
        """Return ``count`` new ids, in order."""
        start, first = self._start(), self._counter + 1
        self._counter = (self._counter + count) & 0xFFFF
        if first + count > 0x10000:
            return [f"{start}{n & 0xFFFF:04X}" for n in range(first, first + count)]
        digits = struct.pack(f">{count}H", *range(first, first + count)).hex().upper()
        return [start + digits[at : at + 4] for at in range(0, 4 * count, 4)]

    def _start(self) -> str:
        """Return the part that the ids of one millisecond share."""
        now_ms = self._clock.now_ms()
        if now_ms != self._last_ms:
            if not self._month_start_ms <= now_ms < self._month_end_ms:
                self._enter_month(now_ms)
            self._last_ms = now_ms
            self._last_start = f"{self._prefix}{(now_ms - self._month_start_ms) & 0xFFFFFFFF:08X}"
        return self._last_start

    def _enter_month(self, now_ms: int) -> None:
        now = datetime.fromtimestamp(now_ms / 1000, UTC)
        start = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        end = start.replace(year=start.year + start.month // 12, month=start.month % 12 + 1)
        self._month_start_ms = int(start.timestamp() * 1000)
        self._month_end_ms = int(end.timestamp() * 1000)
