"""Indented JSON of large objects, made in pieces: other threads of the process run between two of them.

One call of msgspec for a table of a million entries would hold Python's lock, and so the event loop, for seconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

PIECE_ENTRY_COUNT = 500  # entries of maps that are encoded together: a fraction of a millisecond


def json_pieces(value: Mapping[Any, Any]) -> Iterator[bytes]:
    """Yield the JSON text of a map, indented by one space a level, as ``msgspec.json.format`` has it."""
    return _map_pieces(value, 0) if value else iter((b"{}",))


def _map_pieces(value: Mapping[Any, Any], depth: int) -> Iterator[bytes]:
    lead = b"{"
    batch: dict[Any, Any] = {}
    count = 0
    for key, item in value.items():
        weight = _weight(item)
        if batch and count + weight > PIECE_ENTRY_COUNT:
            yield lead + _entries(batch, depth)
            lead, batch, count = b",", {}, 0
        if weight > PIECE_ENTRY_COUNT:
            name, _, _ = _entries({key: 0}, depth).rpartition(b"0")
            yield lead + name
            yield from (_map_pieces if isinstance(item, Mapping) else _list_pieces)(item, depth + 1)
            lead = b","
        else:
            batch[key] = item
            count += weight
    if batch:
        yield lead + _entries(batch, depth)
    yield b"\n" + b" " * depth + b"}"


def _list_pieces(items: list[Any], depth: int) -> Iterator[bytes]:
    lead = b"["
    for start in range(0, len(items), PIECE_ENTRY_COUNT):
        yield lead + _entries(items[start : start + PIECE_ENTRY_COUNT], depth)
        lead = b","
    yield b"\n" + b" " * depth + b"]"


def _weight(item: Any) -> int:
    """Return how many entries an item counts for; below the second level of maps and lists roughly."""
    if isinstance(item, Mapping):
        return 1 + len(item) + sum(len(each) for each in item.values() if isinstance(each, (Mapping, list)))
    return 1 + len(item) if isinstance(item, list) else 1


def _entries(batch: dict[Any, Any] | list[Any], depth: int) -> bytes:
    """Return the entries with a line break before each, without the braces or brackets around them."""
    text = msgspec.json.format(msgspec.json.encode(batch), indent=1)
    inner = text[1:-2]
    return inner.replace(b"\n", b"\n" + b" " * depth) if depth else inner
