"""Bodies are inflated within a budget, which says once that it is used up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from pymq.model.compression import InflateError, compress_body
from pymq.operations.message.content import bounded_content, content


def stored(body: bytes, sys_flag: int = 0) -> Any:
    def inflated() -> bytes:
        raise InflateError("damaged")

    return SimpleNamespace(body=body, sys_flag=sys_flag, size_bytes=100, content=inflated)


def test_bodies_come_as_they_were_sent_until_the_budget_is_used_up() -> None:
    body, flags = compress_body(bytes(1_000_000))
    notes: list[str] = []
    read = bounded_content(1, notes.append)
    bodies = [read(stored(body, flags)) for _ in range(80)]
    inflated = bodies.count(bytes(1_000_000))
    assert inflated == 67, "64 MiB"
    assert bodies[inflated:] == [body] * (80 - inflated)
    assert len(notes) == 1 and "as they are stored from here on" in notes[0]
    assert read(stored(b"plain")) == b"plain"


def test_a_body_that_cannot_be_inflated_comes_as_it_is_stored() -> None:
    assert content(stored(b"as it is stored")) == b"as it is stored"
