"""Helpers: a small store on either file system, and functions that fill, read and compare it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pymq.clock import ManualClock
from pymq.model.draft import Draft
from pymq.model.javahash import tags_code
from pymq.model.record import StoredMessage, decode_records
from pymq.store.disk.fs import Files
from pymq.store.store import MessageStore, Placed, StoreSettings

HOST = b"\x7f\x00\x00\x01\x00\x00\x2a\x9f"
BORN = b"\x0a\x00\x00\x07\x00\x00\x12\x34"
ROOT = "/store"
SMALL: dict[str, Any] = {
    "segment_size_bytes": 4096,
    "queue_file_size_bytes": 200,
    "index_slot_count": 7,
    "index_entry_count": 20,
    "queue_tail_bytes": 400,
    "light_file_entry_count": 5,
    "light_table_entry_count": 7,
}


def make_store(files: Files, clock: ManualClock | None = None, root: str = ROOT, **settings: Any) -> MessageStore:
    """Return a store that rolls its files often. It is not opened yet."""
    return MessageStore(
        root=root,
        files=files,
        clock=clock or ManualClock(),
        settings=StoreSettings(**{**SMALL, **settings}),
        store_host=HOST,
    )


def stage(store: MessageStore, topic: str, queue_id: int, body: bytes, tags: str = "", keys: str = "") -> Placed:
    properties = b""
    if tags:
        properties += b"TAGS\x01" + tags.encode() + b"\x02"
    if keys:
        properties += b"KEYS\x01" + keys.encode() + b"\x02"
    return store.stage(topic, queue_id, Draft(body, properties, 1_000, BORN, tags_code(tags)))


def put(store: MessageStore, topic: str, queue_id: int, body: bytes, tags: str = "", keys: str = "") -> Placed:
    placed = stage(store, topic, queue_id, body, tags, keys)
    store.commit()
    return placed


def drop_oldest(store: MessageStore) -> int:
    """Delete the oldest segment and sweep every queue, as the cleaner does. Returns the log's new minimum offset."""
    start = store.physical_min_offset
    store.delete_segment(start)
    store.forget_segment(start)
    while not store.sweep():
        pass
    store.delete_segment(None)
    return store.physical_min_offset


def read_all(store: MessageStore, topic: str, queue_id: int) -> list[StoredMessage]:
    """Return every message of a queue, pulled as a client would."""
    found: list[StoredMessage] = []
    offset = store.min_offset(topic, queue_id)
    while True:
        result = store.get(topic, queue_id, offset, 32, 1 << 20)
        if not result.count and result.next_offset <= offset:
            return found
        messages = decode_records(b"".join(result.chunks))
        assert len(messages) == result.count
        found += messages
        offset = result.next_offset


def everything(store: MessageStore) -> dict[tuple[str, int], list[bytes]]:
    """Return bodies by queue. Checks that offsets are dense."""
    result = {}
    for topic, queue_id in store.queues():
        messages = read_all(store, topic, queue_id)
        first = store.min_offset(topic, queue_id)
        assert [m.queue_offset for m in messages] == list(range(first, store.max_offset(topic, queue_id)))
        assert {(m.topic, m.queue_id) for m in messages} <= {(topic, queue_id)}
        result[topic, queue_id] = [m.body for m in messages]
    return {key: bodies for key, bodies in result.items() if bodies}


def found_by_key(store: MessageStore, topic: str, key: str) -> list[bytes]:
    """Return the bodies found by key, newest first."""
    return [decode_records(record)[0].body for record in store.find_by_key(topic, key, 64)]


def die(store: MessageStore) -> None:
    """Kill the store's process: release the lock, write nothing."""
    store._release()
    store._serving = False


def bodies(count: int, start: int = 0) -> Iterator[bytes]:
    return (b"body-%d" % i for i in range(start, start + count))
