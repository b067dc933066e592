"""Unconfirmed commits: invisible until disk or slaves have them, whole after a kill, never in a checkpoint early."""

from __future__ import annotations

import errno
import os
import random

import pytest

from pymq.clock import ManualClock
from pymq.errors import StoreUnavailableError
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.store import MessageStore
from tests.store.support import die, everything, found_by_key, make_store, put, read_all, stage

T = ("T", 0)


@pytest.fixture
def store() -> MessageStore:
    store = make_store(MemoryFiles(), segment_size_bytes=1 << 16)
    store.open()
    return store


def await_sync(store: MessageStore, body: bytes, queue_id: int = 0, keys: str = "") -> int:
    """Store a message that must stay invisible for now. Returns the log's end behind it."""
    stage(store, "T", queue_id, body, keys=keys)
    store.commit(await_sync=True)
    return store.physical_max_offset


def seen(store: MessageStore, queue_id: int = 0) -> list[bytes]:
    return [message.body for message in read_all(store, "T", queue_id)]


def test_a_message_is_invisible_until_its_end_is_on_the_disk(store: MessageStore) -> None:
    arrivals: list[tuple[int, int, int]] = []
    store.add_arrival_listener(
        lambda queue, units: arrivals.append((queue.queue_id, queue.max_offset, len(units) // 20))
    )
    ends = [await_sync(store, b"1", keys="k1"), await_sync(store, b"2", 1), await_sync(store, b"3", keys="k3")]
    store.confirm(ends[0] - 1)
    assert seen(store) == seen(store, 1) == [] and arrivals == []
    assert (store.max_offset(*T), store.store_time(*T, 0), found_by_key(store, "T", "k1")) == (0, -1, [])
    store.confirm(ends[1])
    assert seen(store) == [b"1"] and seen(store, 1) == [b"2"] and arrivals == [(0, 1, 1), (1, 1, 1)]
    assert found_by_key(store, "T", "k1") == [b"1"] and found_by_key(store, "T", "k3") == []
    store.confirm(ends[2])
    assert seen(store) == [b"1", b"3"] and found_by_key(store, "T", "k3") == [b"3"]


def test_a_message_that_needs_no_sync_waits_for_an_earlier_one_that_does(store: MessageStore) -> None:
    end = await_sync(store, b"1")
    assert put(store, "T", 0, b"2").queue_offset == 1
    put(store, "T", 1, b"3")
    assert seen(store) == seen(store, 1) == []
    store.confirm(end)
    assert seen(store) == [b"1", b"2"] and seen(store, 1) == [b"3"]
    put(store, "T", 0, b"4")
    assert seen(store)[-1] == b"4"


@pytest.mark.parametrize("first", ["disk", "slaves"])
def test_a_message_that_needs_disk_and_slaves_is_visible_when_both_have_it(store: MessageStore, first: str) -> None:
    stage(store, "T", 0, b"1", keys="k")
    store.commit(await_sync=True, await_confirm=True)
    end = store.physical_max_offset
    steps = [lambda: store.confirm(synced_offset=end), lambda: store.confirm(confirm_offset=end)]
    for step in steps if first == "disk" else reversed(steps):
        assert seen(store) == []
        step()
    assert seen(store) == [b"1"] and found_by_key(store, "T", "k") == [b"1"]


def test_disk_and_slaves_confirm_only_what_waits_for_them(store: MessageStore) -> None:
    ends = []
    for body, needs in ((b"1", {"await_confirm": True}), (b"2", {"await_sync": True}), (b"3", {"await_confirm": True})):
        stage(store, "T", 0, body)
        store.commit(**needs)
        ends.append(store.physical_max_offset)
    store.confirm(synced_offset=ends[2])
    assert seen(store) == []
    store.confirm(confirm_offset=ends[0])
    assert seen(store) == [b"1", b"2"]
    store.confirm(confirm_offset=ends[2] - 1)
    assert seen(store) == [b"1", b"2"]
    store.confirm(confirm_offset=ends[2])
    assert seen(store) == [b"1", b"2", b"3"]


def test_a_lower_confirm_offset_hides_nothing_and_new_messages_wait(store: MessageStore) -> None:
    """More copies are needed than before, or a slave is gone: visible messages stay visible, new ones wait."""
    stage(store, "T", 0, b"1")
    store.commit(await_confirm=True)
    store.confirm(confirm_offset=store.physical_max_offset)
    store.confirm(confirm_offset=0)
    stage(store, "T", 0, b"2")
    store.commit(await_confirm=True)
    store.confirm(synced_offset=store.physical_max_offset)
    assert seen(store) == [b"1"]


def test_a_failed_commit_gives_only_its_own_offsets_back(store: MessageStore) -> None:
    files = store._files
    assert isinstance(files, MemoryFiles)
    end = await_sync(store, b"1")

    def full(call: str, path: str) -> None:
        if call == "pwrite":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    assert [stage(store, "T", 0, b"lost").queue_offset, stage(store, "T", 0, b"lost").queue_offset] == [1, 2]
    files.fault = full
    with pytest.raises(StoreUnavailableError):
        store.commit(await_sync=True)
    files.fault = None
    assert stage(store, "T", 0, b"2").queue_offset == 1
    store.commit()
    store.confirm(end)
    assert seen(store) == [b"1", b"2"]


def test_closing_confirms_every_commit(store: MessageStore) -> None:
    await_sync(store, b"1", keys="k")
    store.close()
    again = make_store(store._files, segment_size_bytes=1 << 16)
    report = again.open()
    assert report.clean and report.records_scanned == 0
    assert seen(again) == [b"1"] and found_by_key(again, "T", "k") == [b"1"]


def test_messages_behind_a_failed_fsync_stay_invisible_until_a_restart(store: MessageStore) -> None:
    files = store._files
    assert isinstance(files, MemoryFiles)
    await_sync(store, b"1")

    def broken(call: str, path: str) -> None:
        if call == "sync" and "/commitlog/" in path:
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    files.fault = broken
    with pytest.raises(StoreUnavailableError, match="read-only"):
        store.sync()
    files.fault = None
    store.tick()
    with pytest.raises(StoreUnavailableError):
        store.close()
    assert seen(store) == []
    die(store)
    again = make_store(files, segment_size_bytes=1 << 16)
    assert not again.open().clean
    assert seen(again) == [b"1"], "the kernel still had it"


def test_deleting_a_topic_confirms_the_others_first(store: MessageStore) -> None:
    await_sync(store, b"1")
    stage(store, "Other", 0, b"2")
    store.commit(await_sync=True)
    assert store.delete_topics("Other") == 1
    assert seen(store) == [b"1"]
    die(store)
    again = make_store(store._files, segment_size_bytes=1 << 16)
    again.open()
    assert everything(again) == {T: [b"1"]}


def test_deleting_a_topic_confirms_nothing_that_slaves_lack(store: MessageStore) -> None:
    for topic, body in (("T", b"1"), ("Other", b"2"), ("T", b"3")):
        stage(store, topic, 0, body)
    store.commit(await_confirm=True)
    assert store.delete_topics("Other") == 1
    assert seen(store) == [] and store.queue_end("Other", 0) is None
    put(store, "Other", 0, b"new")
    store.confirm(confirm_offset=store.physical_max_offset)
    assert everything(store) == {T: [b"1", b"3"], ("Other", 0): [b"new"]}
    die(store)
    again = make_store(store._files, segment_size_bytes=1 << 16)
    again.open()
    assert everything(again) == {T: [b"1", b"3"], ("Other", 0): [b"new"]}


def test_keys_are_read_from_the_visible_part_of_the_log_only(store: MessageStore) -> None:
    assert store._index is not None
    put(store, "T", 0, b"1", keys="k1")
    store._index._behind_from = store.physical_min_offset
    store._index._pending.drop_first(len(store._index._pending))
    end = await_sync(store, b"2", keys="k2")
    assert found_by_key(store, "T", "k1") == [b"1"] and found_by_key(store, "T", "k2") == []
    store.confirm(end)
    assert found_by_key(store, "T", "k2") == [b"2"]


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("power_loss", [False, True])
def test_any_order_of_commits_syncs_and_checkpoints_survives_a_stop(seed: int, power_loss: bool) -> None:
    """After a kill everything committed is there; after a power loss everything that was ever visible."""
    rng = random.Random(seed)
    clock = ManualClock()
    files = MemoryFiles(now_ms=clock.now_ms)
    store = make_store(files, clock)
    store.open()
    sent: dict[int, list[bytes]] = {0: [], 1: []}
    position = 0
    for number in range(rng.randrange(5, 60)):
        action = rng.random()
        if action < 0.55:
            for _ in range(rng.randrange(1, 4)):
                queue_id = rng.randrange(2)
                body = b"%d-%d-%d" % (number, queue_id, len(sent[queue_id]))
                stage(store, "T", queue_id, body, keys=f"k{body.decode()}")
                sent[queue_id].append(body)
            store.commit(await_sync=True)
        elif action < 0.7:
            position = store.sync(log_only=True)  # the loop hears of it later, or never
        elif action < 0.85:
            store.confirm(position)
        elif action < 0.95:
            clock.advance(store.settings.queue_write_interval_ms())
            store.tick()
        else:
            clock.advance(store.settings.checkpoint_interval_ms)
            position = store.sync()
    visible = {queue_id: seen(store, queue_id) for queue_id in sent}
    for queue_id, bodies in visible.items():
        assert bodies == sent[queue_id][: len(bodies)]
    die(store)
    if power_loss:
        files = files.after_power_loss(lambda path, page: rng.random() < 0.5, lambda path: rng.random() < 0.5)
    again = make_store(files, clock)
    again.open()
    for queue_id, bodies in sent.items():
        found = seen(again, queue_id)
        assert found == bodies[: len(found)]
        assert len(found) >= len(visible[queue_id]) if power_loss else found == bodies
        assert all(found_by_key(again, "T", f"k{body.decode()}") == [body] for body in found)
