"""ReadBuffer: one memory for the bytes of a batch after the other."""

from __future__ import annotations

from pymq.spark.records.read_buffer import ReadBuffer


def test_chunks_that_stand_apart_are_copied_together() -> None:
    buffer = ReadBuffer(10)
    views = [buffer.room(size) for size in (3, 4, 5, 3)]
    for number, view in enumerate(views):
        view[:] = bytes([number]) * len(view)
    last = bytes(buffer.joined(views[3:]))
    assert last == bytes([3]) * 3
    for chosen in ([0, 1], [1], [1, 0], [0, 2], [2, 0], [2], [0, 1, 3], [1, 3], [0, 3]):
        expected = b"".join(bytes(views[number]) for number in chosen)
        assert bytes(buffer.joined([views[number] for number in chosen])) == expected
    assert isinstance(buffer.joined([views[1], views[0]]), bytes) and not isinstance(buffer.joined(views[:2]), bytes)
    buffer.reset()
    buffer.room(10)[:] = b"0123456789"
    assert bytes(views[1]) == b"3456"


def test_memory_is_used_again_and_grows_when_more_is_needed() -> None:
    buffer = ReadBuffer()
    buffer.reset(4)
    first = buffer.room(4)
    first[:] = b"1234"
    buffer.reset(3)
    assert bytes(buffer.room(3)) == b"123"
    buffer.reset(8)
    views = [buffer.room(size) for size in (5, 3)]
    views[0][:], views[1][:] = b"abcde", b"fgh"
    assert bytes(first) == b"1234"
    joined = buffer.joined(views)
    assert bytes(joined) == b"abcdefgh" and not isinstance(joined, bytes)
