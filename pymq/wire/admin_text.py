"""The JSON text of administration bodies, made in steps: an answer about 65,535 queues takes too long for one turn.

It is strict JSON, except that :class:`~pymq.model.message.MessageQueue` keys become object keys, as RocketMQ's clients
in Go and C++ expect (fastjson's dialect).
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from pymq.errors import Refusal
from pymq.model.message import MessageQueue
from pymq.wire.codes import ResponseCode
from pymq.wire.command import FRAME_SIZE_MAX_BYTES

ENTRIES_AT_ONCE = 64  # entries of maps and lists that are encoded before the next rest
TABLE_ENTRIES_AT_ONCE = 500
HEADER_ROOM_BYTES = 64 * 1024
# Clients close the connection on a larger frame (Java: NettySystemConfig.frameMaxLength).
BODY_SIZE_MAX_BYTES = FRAME_SIZE_MAX_BYTES - HEADER_ROOM_BYTES

_SCALARS = (int, float, bool, str)


def encode_in_steps(body: Any, size_max_bytes: int = BODY_SIZE_MAX_BYTES) -> Generator[None, None, bytes]:
    """Return the body as :func:`pymq.wire.bodies_admin.encode_admin_body` does. Yields now and then.

    Raises Refusal(SYSTEM_ERROR) when it gets larger than a client can take.
    """
    pieces: list[bytes] = []
    text = bytearray()
    for _ in _write(body, pieces):
        text += b"".join(pieces)
        pieces.clear()
        _check_size(len(text), size_max_bytes)
        yield
    text += b"".join(pieces)
    _check_size(len(text), size_max_bytes)
    return bytes(text)


def encode_table_in_steps(
    members: Mapping[str, Any], size_max_bytes: int = BODY_SIZE_MAX_BYTES
) -> Generator[None, None, bytes]:
    """Return strict JSON of a saved table, whose members may be large maps. Yields now and then; nulls stay.

    The maps must not change meanwhile. Raises as :func:`encode_in_steps`.
    """
    pieces: list[bytes] = []
    size_bytes, lead = 0, b"{"
    for name, member in members.items():
        is_map = isinstance(member, Mapping)
        pieces.append(lead + msgspec.json.encode(name) + (b":{" if is_map else b":" + msgspec.json.encode(member)))
        lead = b","
        if is_map:
            for number, batch in enumerate(_batches(member)):
                pieces.append((b"," if number else b"") + msgspec.json.encode(batch)[1:-1])
                size_bytes += len(pieces[-1])
                _check_size(size_bytes, size_max_bytes)
                yield
            pieces.append(b"}")
    pieces.append(b"}")
    return b"".join(pieces)


def _batches(table: Mapping[Any, Any]) -> Iterator[dict[Any, Any]]:
    """Yield a map in pieces of ``TABLE_ENTRIES_AT_ONCE`` entries; what entries hold counts, too."""
    batch: dict[Any, Any] = {}
    count = 0
    for key, item in table.items():
        batch[key] = item
        count += len(item) if isinstance(item, (Mapping, list)) else 1
        if count >= TABLE_ENTRIES_AT_ONCE:
            yield batch
            batch, count = {}, 0
    if batch:
        yield batch


def encode_whole(body: Any) -> bytes:
    """Return the text of a body, or of a part of one, at once, however large."""
    pieces: list[bytes] = []
    for _ in _write(body, pieces):
        pass
    return b"".join(pieces)


def _check_size(size_bytes: int, size_max_bytes: int) -> None:
    if size_bytes > size_max_bytes:
        raise Refusal(
            ResponseCode.SYSTEM_ERROR,
            f"the answer has more than {size_max_bytes} bytes, which clients refuse: ask for one group or topic",
        )


def _write(value: Any, pieces: list[bytes]) -> Generator[None, None, None]:
    if _is_leaf(value):
        pieces.append(_leaf(value))
    elif isinstance(value, msgspec.Struct):
        yield from _write_map(_members(value), pieces)
    elif isinstance(value, Mapping):
        yield from _write_map(value, pieces)
    else:
        yield from _write_list(value, pieces)


def _write_map(entries: Mapping[Any, Any], pieces: list[bytes]) -> Generator[None, None, None]:
    lead = b"{"
    for number, (key, item) in enumerate(entries.items(), 1):
        if isinstance(key, MessageQueue):
            name = _queue_text(key)
        else:
            name = msgspec.json.encode(str(key))
        if _is_leaf(item):
            pieces.append(b"%b%b:%b" % (lead, name, _leaf(item)))
        else:
            pieces.append(b"%b%b:" % (lead, name))
            yield from _write(item, pieces)
        lead = b","
        if number % ENTRIES_AT_ONCE == 0:
            yield
    pieces.append(b"}" if entries else b"{}")


def _write_list(items: list[Any], pieces: list[bytes]) -> Generator[None, None, None]:
    lead = b"["
    for number, item in enumerate(items, 1):
        if _is_leaf(item):
            pieces.append(lead + _leaf(item))
        else:
            pieces.append(lead)
            yield from _write(item, pieces)
        lead = b","
        if number % ENTRIES_AT_ONCE == 0:
            yield
    pieces.append(b"]" if items else b"[]")


def _members(value: msgspec.Struct) -> dict[str, Any]:
    """Return what is set, by its name in JSON: nulls are left out."""
    named = ((name, getattr(value, attribute)) for name, attribute in _names(type(value)))
    return {name: member for name, member in named if member is not None}


def _is_leaf(value: Any) -> bool:
    """Return True for what :func:`_leaf` encodes in one call."""
    if isinstance(value, msgspec.Struct):
        return _is_flat(type(value))
    return not isinstance(value, (Mapping, list, tuple)) or isinstance(value, MessageQueue)


def _leaf(value: Any) -> bytes:
    if isinstance(value, MessageQueue):
        return _queue_text(value)
    return msgspec.json.encode(value)


def _queue_text(queue: MessageQueue) -> bytes:
    """Return a queue as fastjson writes it, also inside a map's key."""
    before, after = _around_queue_id(queue.broker_name, queue.topic)
    return b"%b%d%b" % (before, queue.queue_id, after)


@lru_cache(maxsize=64)  # names have 255 letters at most
def _around_queue_id(broker_name: str, topic: str) -> tuple[bytes, bytes]:
    broker, name = msgspec.json.encode(broker_name), msgspec.json.encode(topic)
    return b'{"brokerName":%b,"queueId":' % broker, b',"topic":%b}' % name


@lru_cache(maxsize=256)  # there are fewer classes of bodies
def _names(kind: type[msgspec.Struct]) -> list[tuple[str, str]]:
    return [(field.encode_name, field.name) for field in msgspec.structs.fields(kind)]


@lru_cache(maxsize=256)
def _is_flat(kind: type[msgspec.Struct]) -> bool:
    """Return True when all members are scalars, or flat themselves, and none can be null."""
    return all(
        field.type in _SCALARS
        or (isinstance(field.type, type) and issubclass(field.type, msgspec.Struct) and _is_flat(field.type))
        for field in msgspec.structs.fields(kind)
    )
