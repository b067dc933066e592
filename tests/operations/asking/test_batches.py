"""Many questions, some at a time."""

from __future__ import annotations

import asyncio

import pytest

from pymq.errors import UnreachableError
from pymq.operations.asking.batches import for_each, or_none


def test_so_many_run_at_a_time_and_answers_keep_their_order() -> None:
    running = most = 0

    async def work(number: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return number * 2

    assert asyncio.run(for_each(range(7), work, 3)) == [0, 2, 4, 6, 8, 10, 12]
    assert most == 3


def test_a_question_that_fails_has_no_answer() -> None:
    async def fail(error: Exception) -> str:
        raise error

    assert asyncio.run(or_none(fail(UnreachableError("away")))) is None
    with pytest.raises(ValueError, match="a bug"):
        asyncio.run(or_none(fail(ValueError("a bug"))))
