"""The fast write paths store the same bytes as the plain encoder."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pymq.clock import ManualClock
from pymq.errors import DoesNotFitError
from pymq.model.draft import Draft
from pymq.model.hosts import pack_host
from pymq.model.record import encode_record
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.queue.queue_view import tags_codes
from pymq.store.store import MessageStore, StoreSettings
from pymq.store.write.appender import Placed, PlacedBatch
from tests.store.support import HOST, make_store, put

SETTINGS = StoreSettings(segment_size_bytes=1 << 16)
NOW_MS = 1_700_000_000_000
V6 = bytes(range(16)) + b"\x00\x00\x2a\x9f"
TOPICS = st.sampled_from(["T", "%RETRY%" + "g" * 119, "%RETRY%" + "g" * 121, "%DLQ%" + "x" * 200])
ENTRIES = st.lists(
    st.tuples(
        st.integers(-(2**31), 2**31 - 1),
        st.binary(max_size=40),
        st.binary(max_size=2000).map(lambda raw: raw.replace(b"\0", b"\1")),
        st.integers(-9, 9),
    ),
    min_size=1,
    max_size=5,
)


def open_store(store_host: bytes = HOST) -> MessageStore:
    store = MessageStore(
        root="/s", files=MemoryFiles(), clock=ManualClock(NOW_MS), settings=SETTINGS, store_host=store_host
    )
    store.open()
    return store


def draft_of(entry: tuple[int, bytes, bytes, int], sys_flag: int, born_host: bytes) -> Draft:
    flag, body, properties, tags_code = entry
    return Draft(body, properties, 5, born_host, tags_code, flag, sys_flag, properties)


def plain(topic: str, offset: int, physical: int, entry: tuple[int, bytes, bytes, int], **more: object) -> bytes:
    fields: dict[str, Any] = {"sys_flag": 1, "born_timestamp_ms": 5, "born_host": HOST, "store_host": HOST, **more}
    return encode_record(
        topic=topic.encode(), queue_id=3, queue_offset=offset, physical_offset=physical, body=entry[1],
        properties=entry[2], flag=entry[0], store_timestamp_ms=NOW_MS, **fields,
    )  # fmt: skip


@pytest.mark.slow
@settings(deadline=None)
@given(TOPICS, ENTRIES)
def test_every_way_to_stage_equals_the_plain_encoder(topic: str, entries: list) -> None:
    for way in ("batch", "single", "short"):
        store = open_store()
        if way == "batch":
            store.stage_many(topic, 3, [draft_of(entry, 1, HOST) for entry in entries])
        short = store.plain_stager()
        for entry in entries if way != "batch" else []:
            queue = short.queue(topic, 3) if way == "short" else None
            if queue is not None:
                short.stage(queue, draft_of(entry, 1, HOST))
            else:
                store.stage(topic, 3, draft_of(entry, 1, HOST))
        store.commit()
        at = 0
        for offset, entry in enumerate(entries):
            wanted = plain(topic, offset, at, entry)
            assert bytes(store.record_at(at)) == wanted
            assert store._queues.make(topic, 3).unit(offset) == (at, len(wanted), entry[3])
            at += len(wanted)
        assert store.physical_max_offset == at
        store._release()


@pytest.mark.slow
@settings(deadline=None)
@given(st.sampled_from([HOST, V6]), st.sampled_from([HOST, V6]), ENTRIES)
def test_ipv4_and_ipv6_hosts(born_host: bytes, store_host: bytes, entries: list) -> None:
    store = open_store(store_host)
    placed = store.stage_many("T", 3, [draft_of(entry, 0x31, born_host) for entry in entries])
    store.commit()
    for offset, (entry, place) in enumerate(zip(entries, placed, strict=True)):
        wanted = plain("T", offset, place.physical_offset, entry, born_host=born_host, store_host=store_host)
        assert bytes(store.record_at(place.physical_offset)) == wanted
        assert place.size_bytes == len(wanted)
    assert store.store_time("T", 3, 0) == NOW_MS


def test_a_batch_returns_a_sequence_of_places() -> None:
    placed = PlacedBatch(5, [100, 210, 330], [110, 120, 130])
    assert list(placed) == [Placed(5, 100, 110), Placed(6, 210, 120), Placed(7, 330, 130)]
    assert (len(placed), placed[-1], placed[1:]) == (3, Placed(7, 330, 130), [Placed(6, 210, 120), Placed(7, 330, 130)])
    assert len(PlacedBatch(5, [], [])) == 0


def test_half_messages_and_rollbacks_take_no_queue_offset() -> None:
    store = open_store()
    for sys_flag in (0x4, 0xC, 0x8, 0x0):
        store.stage("T", 0, Draft(b"", b"", 0, HOST, 0, sys_flag=sys_flag))
    store.commit()
    assert store.max_offset("T", 0) == 2


def test_listeners_are_called_once_per_queue_and_commit() -> None:
    store, heard = open_store(), []
    store.add_arrival_listener(
        lambda queue, units: heard.append((queue.topic, queue.queue_id, queue.max_offset, tags_codes(units)))
    )
    store.stage_many("T", 1, [Draft(b"", b"", 0, HOST, code) for code in (7, 8)])
    store.stage("U", 0, Draft(b"", b"", 0, HOST, 9))
    assert heard == []
    store.commit()
    assert heard == [("T", 1, 2, [7, 8]), ("U", 0, 1, [9])]


def test_store_time_never_goes_back() -> None:
    clock = ManualClock(NOW_MS)
    store = make_store(MemoryFiles(), clock)
    store.open()
    times = []
    for now_ms in (NOW_MS, NOW_MS - 3_600_000, NOW_MS + 5):
        clock.set_wall(now_ms)
        store.stage("T", 0, Draft(b"", b"", 0, HOST))
        store.commit()
        times.append(store.store_time("T", 0, store.max_offset("T", 0) - 1))
    assert times == [NOW_MS, NOW_MS, NOW_MS + 5]


@pytest.mark.parametrize("is_restarted", [False, True])
def test_store_time_does_not_stay_ten_years_ahead(is_restarted: bool) -> None:
    clock, files = ManualClock(NOW_MS), MemoryFiles()
    store = make_store(files, clock)
    store.open()
    times: list[int] = []
    for now_ms in (NOW_MS, NOW_MS + 10 * 365 * 86_400_000, NOW_MS + 1, NOW_MS + 1, NOW_MS + 2):
        clock.set_wall(now_ms)
        if is_restarted:
            store.close()
            store = make_store(files, clock)
            store.open()
        put(store, "T", 0, b"x", keys=f"k{len(times)}")
        times.append(store.store_time("T", 0, store.max_offset("T", 0) - 1))
    assert times == [NOW_MS, NOW_MS + 10 * 365 * 86_400_000, NOW_MS + 1, NOW_MS + 1, NOW_MS + 2]
    store.insert_waiting_keys()
    for number, time_ms in enumerate(times):
        begin_ms, end_ms = (0, time_ms) if number == 1 else (time_ms - 5, time_ms + 5)
        assert store.find_by_key("T", f"k{number}", 1, begin_ms, end_ms), number
    # A reader that asks for the messages since a time misses none, though it may get more.
    for offset in (0, 2, 3, 4):
        assert store.offset_by_time("T", 0, times[offset]) <= offset


def test_a_batch_of_an_ipv6_client_is_staged_whole_or_not_at_all() -> None:
    store = open_store()
    drafts = [Draft(body, b"", 0, pack_host("::1", 1)) for body in (b"fits", b"x" * SETTINGS.segment_size_bytes)]
    with pytest.raises(DoesNotFitError, match="can't be stored"):
        store.stage_many("T", 0, drafts)
    store.commit()
    assert store.max_offset("T", 0) == 0
