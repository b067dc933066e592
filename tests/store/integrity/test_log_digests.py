"""LogDigests: digests of chunks of the log."""

from __future__ import annotations

import pytest
from xxhash import xxh3_64_hexdigest

from pymq.store.integrity.digest_file import BLOCK_SIZE_BYTES
from pymq.store.integrity.log_digests import DAMAGED, chunk_bounds, chunk_digest
from tests.broker.world import World

SEGMENT_BYTES = 64 * 1024


@pytest.fixture
def world() -> World:
    """Return a log of some blocks, whose digests are known."""
    world = World(mappedFileSizeCommitLog=SEGMENT_BYTES)
    for number in range(40):
        world.put("orders", bytes([number]) * 1000)
    assert world.parts.store._digests is not None
    world.parts.store._digests.work()
    return world


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (0, 0, []),
        (0, 10, [(0, 10)]),
        (0, 40, [(0, 40)]),
        (0, 41, [(0, 40), (40, 41)]),
        (70, 210, [(70, 100), (100, 140), (140, 180), (180, 200), (200, 210)]),
    ],
)
def test_chunks_end_at_the_ends_of_segments(start: int, end: int, expected: list[tuple[int, int]]) -> None:
    assert list(chunk_bounds(start, end, 40, 100)) == expected


def test_a_chunk_s_digest_is_that_of_its_bytes(world: World) -> None:
    log = world.parts.store._log
    for start, end in ((0, BLOCK_SIZE_BYTES), (100, 5000), (BLOCK_SIZE_BYTES, log.max_offset)):
        raw = bytes(log.segments[0].read(start, end - start))
        assert chunk_digest(log, start, end) == xxh3_64_hexdigest(raw)


def test_a_damaged_chunk_has_no_digest(world: World) -> None:
    log = world.parts.store._log
    file = log.segments[0].file
    at = 2 * BLOCK_SIZE_BYTES + 77
    file.pwrite(at, bytes([file.pread(at, 1)[0] ^ 4]))
    assert chunk_digest(log, 2 * BLOCK_SIZE_BYTES, 4 * BLOCK_SIZE_BYTES) == DAMAGED
    assert chunk_digest(log, 0, 2 * BLOCK_SIZE_BYTES) != DAMAGED
    assert chunk_digest(log, 3 * BLOCK_SIZE_BYTES, log.max_offset) != DAMAGED
