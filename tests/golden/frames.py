"""Reads frames.jsonl: frames captured between real clients and an Apache RocketMQ 5.3.3 name server and broker."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FRAMES_FILE = Path(__file__).with_name("frames.jsonl")


@dataclass(frozen=True, slots=True)
class Frame:
    """One captured frame. ``raw``: all its bytes; ``peer``: the kind of client; ``to``: its server."""

    line: int
    raw: bytes
    kind: str  # request, response or oneway
    code: int  # of this frame's header
    request_code: int
    request_name: str
    opaque: int
    peer: str
    to: str  # namesrv or broker
    serialize: str

    @property
    def payload(self) -> bytes:
        return self.raw[4:]

    def __str__(self) -> str:
        return f"line{self.line}-{self.request_name}-{self.kind}-{self.peer}"


@cache
def load_frames() -> tuple[Frame, ...]:
    """Return all captured frames, in the order of the file."""
    with FRAMES_FILE.open(encoding="utf-8") as lines:
        return tuple(_frame(number, json.loads(line)) for number, line in enumerate(lines, 1))


def _frame(number: int, row: dict[str, str]) -> Frame:
    return Frame(
        line=number,
        raw=bytes.fromhex(row["hex"]),
        kind=row["type"],
        code=int(row["code"]),
        request_code=int(row["request_code"]),
        request_name=row["request_name"],
        opaque=int(row["opaque"]),
        peer=row["client"],
        to=row["conn"].partition("->")[2],
        serialize=row["serialize"],
    )
