"""Which moves of an offset are logged, and how."""

from __future__ import annotations

import asyncio

import pytest

from pymq.client import MessageQueue, PullResult, PullStatus
from pymq.client import offset_moves as module
from pymq.client.instance import ClientInstance, ClusterAccess
from pymq.client.offset_moves import OffsetMoves


def logged(
    caplog: pytest.LogCaptureFixture, moves: list[tuple[int, int]], low: int = 10, high: int = 20
) -> list[tuple[str, str]]:
    """Return (level, text) of the lines for these moves, from and to an offset, each of another queue."""
    caplog.set_level("INFO", module.log.name)

    async def main() -> None:
        instance = ClientInstance(ClusterAccess("127.0.0.1:1"))
        instance.start()
        found = OffsetMoves("G", instance)
        for queue_id, (offset, target) in enumerate(moves):
            result = PullResult(PullStatus.OFFSET_ILLEGAL, target, low, high)
            found.moved(MessageQueue("T", "b", queue_id), offset, result)
        await asyncio.sleep(0)
        await instance.close()  # what is gathered is logged at the latest when the client stops

    asyncio.run(main())
    return [(record.levelname, record.getMessage()) for record in caplog.records]


def test_a_move_to_the_same_offset_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    assert logged(caplog, [(15, 15), (5, 5)]) == []


def test_a_reset_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    [(level, text)] = logged(caplog, [(15, 10), (10, 20), (12, 12)])
    assert (level, text) == ("INFO", "the offsets of group G were reset: T b/0 from 15 to 10, T b/1 from 10 to 20")


def test_the_line_of_a_large_reset_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    [(_, text)] = logged(caplog, [(15, 10)] * 1000)
    assert text.endswith("T b/7 from 15 to 10 and 992 more queues")


def test_messages_that_were_deleted_are_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    [(level, text)] = logged(caplog, [(4, 10)])
    assert level == "WARNING" and "the messages 4 to 9 of T b/0 were deleted before they were consumed" in text


def test_an_offset_beyond_the_end_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    [(level, text)] = logged(caplog, [(30, 20)])
    assert level == "WARNING" and "offset 30 of T b/0 is beyond its end, continuing at 20" in text
