"""Helpers: sends to lite topics, and a look at all that a store's light queues hold."""

from __future__ import annotations

from pymq.model.draft import Draft
from pymq.model.lite_topics import DISPATCH_MARK, light_place
from pymq.model.record import decode_records
from pymq.store.light.entry_files import LightEntry
from pymq.store.store import MessageStore, Placed
from tests.store.support import BORN

Held = dict[tuple[str, str], list[tuple[int, bytes]]]  # offsets and bodies by parent and lite topic


def stage_lite(store: MessageStore, parent: str, queue_id: int, lite: str, body: bytes) -> Placed:
    return store.stage(parent, queue_id, Draft(body, b"TAGS\x01a\x02", 1_000, BORN, lite_topic=lite))


def put_lite(store: MessageStore, parent: str, lite: str, body: bytes) -> Placed:
    placed = stage_lite(store, parent, 0, lite, body)
    store.commit()
    return placed


def entries_of(store: MessageStore, parent: str, lite: str) -> list[LightEntry]:
    """Return the entries of a light queue from its oldest message on, by their chain alone."""
    lights = store._lights
    oldest, entry = lights.oldest(parent, lite, store.physical_min_offset), lights.newest(parent, lite)
    found: list[LightEntry] = []
    while oldest is not None and entry is not None:
        found.append(entry)
        if entry == oldest:
            return found[::-1]
        entry = lights._find(entry.previous)
    assert oldest is None, "the chain misses the oldest entry"
    return []


def held_lights(store: MessageStore) -> Held:
    """Return what all light queues hold. Checks records, ends and counts."""
    held: Held = {}
    names = store._lights._numbers
    assert store.lights.count == sum(map(len, names.values()))
    for parent, lites in names.items():
        assert store.lights.count_of(parent) == len(lites)
        for lite in lites:
            messages = []
            entries = entries_of(store, parent, lite)
            for entry in entries:
                (message,) = decode_records(bytes(store.record_at(entry.physical_offset)))
                properties = message.raw_properties
                place = light_place(message.topic, properties)
                assert place is not None
                assert (message.topic, place.lite, place.offset) == (parent, lite, entry.queue_offset)
                assert message.store_timestamp_ms == entry.store_ms
                assert DISPATCH_MARK in properties
                messages.append((entry.queue_offset, message.body))
            ends = store.lights.ends(parent, lite)
            _check_reads(store, parent, lite, entries)
            if messages:
                assert ends == (messages[0][0], messages[-1][0] + 1, entries[-1].store_ms)
                held[parent, lite] = messages
            else:
                assert ends.min_offset == ends.max_offset
    return held


def _check_reads(store: MessageStore, parent: str, lite: str, entries: list[LightEntry]) -> None:
    """Compare reads from several places with a list of all entries."""
    end = store.lights.max_offset(parent, lite)
    middle = entries[len(entries) // 2] if entries else None
    for offset in {0, middle.queue_offset if middle else 0, end - 1, end, end + 1}:
        for count in (0, 1, 3, len(entries) + 1):
            wanted = [entry for entry in entries if entry.queue_offset >= offset][:count]
            assert store.lights.entries(parent, lite, offset, count) == wanted, (offset, count)
    for entry in [middle] if middle else []:
        for ms in (entry.store_ms, entry.store_ms + 1):
            later = [each.queue_offset for each in entries if each.store_ms >= ms]
            assert store.lights.offset_at(parent, lite, ms) == (later or [end])[0]
        for place in (entry.physical_offset, entry.physical_offset + 1):
            behind = [each.queue_offset for each in entries if each.physical_offset >= place]
            assert store.lights.offset_from(parent, lite, place) == (behind or [end])[0]
