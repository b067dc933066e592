"""A replica's log ends before what its disk had called synced and has lost."""

from __future__ import annotations

import pytest

from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.lifecycle.lost_end import CHECKED_SEGMENT_COUNT
from pymq.store.store import MessageStore, RecoveryReport
from tests.store.support import ROOT, bodies, make_store, put, read_all

SEGMENT_SIZE_BYTES = 2000
COUNT = 60
BODIES = list(bodies(COUNT))


def crashed() -> tuple[MemoryFiles, list[int]]:
    """Return the files of a store that was killed after a checkpoint, and where each record begins."""
    files = MemoryFiles()
    store = make_store(files, segment_size_bytes=SEGMENT_SIZE_BYTES)
    store.open()
    for body in BODIES:
        put(store, "T", 0, body)
    store.tick()
    store.sync()
    store._checkpoints.save()
    places = [store._queues.make("T", 0).unit(number)[0] for number in range(COUNT)]
    files.after_kill()
    return files, places


def damage(files: MemoryFiles, place: int, size_bytes: int = 1) -> None:
    start = place // SEGMENT_SIZE_BYTES * SEGMENT_SIZE_BYTES
    at = place - start
    files.nodes[f"{ROOT}/commitlog/{start:020d}"].data[at : at + size_bytes] = bytes(size_bytes)


def opened(files: MemoryFiles, *, checks: bool = True) -> tuple[MessageStore, RecoveryReport, list[str]]:
    told: list[str] = []
    on_lost_end = told.append if checks else None
    store = make_store(files, segment_size_bytes=SEGMENT_SIZE_BYTES, on_lost_end=on_lost_end)
    return store, store.open(), told


def served(store: MessageStore) -> list[bytes]:
    return [message.body for message in read_all(store, "T", 0)]


def test_a_whole_log_stays_as_it_is() -> None:
    files, _ = crashed()
    store, report, told = opened(files)
    assert report.lost == told == [] and served(store) == BODIES


@pytest.mark.parametrize("number", [COUNT - 1, COUNT - 2, COUNT - 12])
def test_the_log_ends_where_the_disk_lost_a_part(number: int) -> None:
    files, places = crashed()
    damage(files, places[number] + 30, 20)
    store, report, told = opened(files)
    assert store.physical_max_offset == places[number] and served(store) == BODIES[:number]
    assert report.lost == told and f"the record at {places[number]} is damaged" in report.lost[0]
    assert put(store, "T", 0, b"next").queue_offset == number, "its place is free: another replica has the message"


def test_without_other_replicas_the_place_stays_taken() -> None:
    files, places = crashed()
    damage(files, places[-2] + 30, 20)
    store, report, told = opened(files, checks=False)
    assert report.lost == told == [] and store.max_offset("T", 0) == COUNT


def test_older_segments_are_not_read() -> None:
    files, places = crashed()
    newest = places[-1] // SEGMENT_SIZE_BYTES
    older = max(place for place in places if place // SEGMENT_SIZE_BYTES == newest - CHECKED_SEGMENT_COUNT)
    damage(files, older + 30, 20)
    store, report, told = opened(files)
    assert report.lost == told == [] and store.max_offset("T", 0) == COUNT
