"""The short look at short queues: it leaves what the close look leaves, and reads each file once."""

from __future__ import annotations

from collections import Counter
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pymq.model.layout import UNIT_SIZE_BYTES
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.lifecycle import queue_recovery
from pymq.store.queue import settling
from pymq.store.queue.consume_queue import ConsumeQueue
from pymq.store.queue.first_page import filled_end
from pymq.store.store import MessageStore
from tests.store.support import ROOT, die, everything, make_store, put

FILE_SIZE = 400 * UNIT_SIZE_BYTES  # almost two pages
QUEUES_COUNT = 200


def filled(lengths: list[int]) -> MemoryFiles:
    """The files of a store that was closed, with a queue of each length."""
    files = MemoryFiles()
    store = make_store(files, queue_file_size_bytes=FILE_SIZE, segment_size_bytes=1 << 16)
    store.open()
    for queue_id, length in enumerate(lengths):
        for number in range(length):
            put(store, "T", queue_id, b"%d" % number)
    store.close()
    return files


def opened(files: MemoryFiles) -> MessageStore:
    store = make_store(files, queue_file_size_bytes=FILE_SIZE, segment_size_bytes=1 << 16)
    store.open()
    return store


def copy(files: MemoryFiles) -> MemoryFiles:
    return files.after_power_loss(lambda *_: True, lambda _: True)


def state(queue: ConsumeQueue) -> dict[str, object]:
    """What a start finds out about a queue, without its sums' marks."""
    names = ("base_offset", "oldest_offset", "min_offset", "max_offset", "next_offset", "tail_offset", "known_end")
    found: dict[str, object] = {name: getattr(queue, name) for name in names}
    return found | {"last": queue.last_physical_offset, "tail": bytes(queue.tail), "sums": queue.sums.saved()}


def states(store: MessageStore) -> list[dict[str, object]]:
    return [state(queue) for queue in store._queues.units()]


lengths = st.lists(st.integers(1, 230), min_size=1, max_size=3)
damages = st.one_of(
    st.none(),
    st.tuples(st.just("flip"), st.integers(0, FILE_SIZE - 1), st.integers(0, 7)),
    st.tuples(st.just("cut"), st.integers(0, FILE_SIZE - 1), st.just(0)),
    st.tuples(st.just("extend"), st.integers(1, 100), st.just(0)),
)


@settings(max_examples=40, deadline=None)
@given(lengths, damages)
def test_the_short_look_equals_the_close_one(lengths: list[int], damage: tuple[str, int, int] | None) -> None:
    files = filled(lengths)
    data = files.nodes[f"{ROOT}/consumequeue/T/0/{0:020d}"]
    if damage is not None:
        what, at, bit = damage
        if what == "flip":
            data.data[at] ^= 1 << bit
        else:
            data.resize(at if what == "cut" else FILE_SIZE + at)
    other = copy(files)
    short = opened(files)
    with patch.object(queue_recovery, "take_first_page", lambda queue, **_: False):
        close = opened(other)
    assert states(short) == states(close)
    assert everything(short) == everything(close)
    assert {path: bytes(node.data) for path, node in files.nodes.items() if "/consumequeue/" in path} == {
        path: bytes(node.data) for path, node in other.nodes.items() if "/consumequeue/" in path
    }
    for store in (short, close):
        store.close()


def counted(files: MemoryFiles) -> Counter[str]:
    """The calls for queue files from now on."""
    calls: Counter[str] = Counter()

    def count(call: str, path: str) -> None:
        if "/consumequeue/T" in path:
            calls[call] += 1

    files.fault = count
    return calls


def test_a_start_reads_each_short_queue_once() -> None:
    files = filled([1] * QUEUES_COUNT)
    calls = counted(files)
    store = opened(files)
    assert calls["pread"] == calls["open"] == QUEUES_COUNT
    assert not calls["sync"] and not calls["sync_dir"] and not calls["pwrite"]
    calls.clear()
    store.close()
    assert not calls


def test_a_search_for_the_end_leaves_out_holes() -> None:
    files = filled([1, 204, 206, 399])
    store = opened(files)
    ends = [filled_end(queue, 0, 400) for queue in store._queues.units()]
    assert ends == [205, 205, 400, 400]
    die(store)


@pytest.mark.parametrize("length", [1, 203, 204, 205, 206, 399, 400])
def test_an_unclean_start_finds_the_same_ends_with_and_without_holes(length: int) -> None:
    files = filled([length])
    store = opened(files)
    put(store, "T", 0, b"more")
    die(store)
    files.remove(f"{ROOT}/digests/queues")
    other = copy(files.after_kill())
    one = opened(files)
    with patch.object(settling, "filled_end", lambda queue, start, end: end):
        two = opened(other)
    assert states(one) == states(two)
    assert one.max_offset("T", 0) == length + 1


@pytest.mark.parametrize("number", [1, 3])
def test_a_start_takes_no_stale_file_for_newer_units(number: int) -> None:
    files = filled([5])
    stale = files.open(f"{ROOT}/consumequeue/T/0/{number * FILE_SIZE:020d}", create=True, size=FILE_SIZE)
    stale.pwrite(0, b"\7" * 40)
    store = opened(files)
    assert (store.min_offset("T", 0), store.max_offset("T", 0)) == (0, 5)
    for at in range(5, 1210):
        put(store, "T", 0, b"%d" % at)
        if at % 100 == 0:
            store._housekeeping.write()
    store.close()
    store = opened(files)
    assert everything(store) == {("T", 0): [b"%d" % at for at in range(5)] + [b"%d" % at for at in range(5, 1210)]}
    store.close()
