"""Inner batches on the short way leave the files that MessageStore.stage_inner leaves, also where a segment ends."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from pymq.model.draft import Draft
from pymq.store.disk.memory_fs import MemoryFiles
from tests.store.support import BORN, SMALL, make_store
from tests.store.test_batch_model import BATCHES, write_topics

PROPERTIES = b"UNIQ_KEY\x01K\x02TAGS\x01A\x02"
BLANK_BYTES = 8
OVERHEAD_BYTES = 91 + len(BATCHES) + len(PROPERTIES) + len(b"INNER_NUM\x013\x02INNER_BASE\x010\x02")


def files_after(sizes: list[int], *, is_short: bool) -> dict[str, bytes]:
    """Return all files of a store that took an inner batch of three messages for each body size."""
    files = MemoryFiles()
    write_topics(files)
    store = make_store(files)
    store.open()
    stager = store.plain_stager()
    for number, size in enumerate(sizes):
        body = b"%d" % (number % 10) * size
        queue = stager.batch_queue(BATCHES, 0)
        assert queue is not None
        if is_short:
            stager.stage_inner(queue, Draft(memoryview(body), PROPERTIES, 1, BORN, keyed=PROPERTIES), 3)
        else:
            store.stage_inner(BATCHES, 0, Draft(body, PROPERTIES, 1, BORN), message_count=3)
        if number % 3 == 2:
            store.commit()
    store.commit()
    assert store.max_offset(BATCHES, 0) == 3 * len(sizes)
    store.close()
    return {path: bytes(node.data) for path, node in files.nodes.items()}


@settings(max_examples=6, deadline=None)
@given(st.lists(st.integers(1, 900), min_size=1, max_size=12))
def test_inner_batches_of_any_size(sizes: list[int]) -> None:
    assert files_after(sizes, is_short=True) == files_after(sizes, is_short=False)


def test_a_record_that_just_fits_and_one_that_does_not() -> None:
    room = SMALL["segment_size_bytes"] - OVERHEAD_BYTES
    for left in (-1, 0, BLANK_BYTES - 1, BLANK_BYTES):
        first = (room - OVERHEAD_BYTES) // 2
        sizes = [first, room - OVERHEAD_BYTES - first - left]
        short = files_after(sizes, is_short=True)
        assert short == files_after(sizes, is_short=False)
        has_next = f"/store/commitlog/{SMALL['segment_size_bytes']:020d}" in short
        assert has_next == (left < BLANK_BYTES)
