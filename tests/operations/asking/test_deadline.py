"""One deadline over several questions: what came, and the reason for each missing answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pymq.errors import UnreachableError
from pymq.operations.asking.deadline import Answers, within


async def answered(value: str) -> str:
    return value


async def failing(error: Exception) -> str:
    raise error


def test_what_came_is_returned_and_the_rest_is_named() -> None:
    ended: list[str] = []

    async def hanging() -> str:
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append("hanging")
        return ""

    async def run() -> Answers[str, str]:
        away = failing(UnreachableError("b:1 is away"))
        return await within(0.05, {"a": answered("one"), "b": away, "c": hanging(), "d": answered("two")})

    answers = asyncio.run(run())
    assert answers.came == {"a": "one", "d": "two"}
    assert answers.missing == {"b": "b:1 is away", "c": "no answer within 0.05 s"}
    assert ended == ["hanging"], "nothing runs on"


def test_it_waits_no_longer_than_for_the_last_answer() -> None:
    async def run() -> Answers[int, str]:
        async with asyncio.timeout(60):
            return await within(3600, {1: answered("one"), 2: failing(UnreachableError("away"))})

    assert asyncio.run(run()) == Answers({1: "one"}, {2: "away"})


def test_no_question_has_no_answer() -> None:
    assert asyncio.run(within(1, {})) == Answers({}, {})


def test_another_error_is_raised() -> None:
    async def run() -> None:
        await within(60, {"a": answered("one"), "b": failing(ValueError("a bug"))})

    with pytest.raises(ValueError, match="a bug"):
        asyncio.run(run())


def test_a_cancelled_caller_leaves_nothing_running() -> None:
    async def run() -> int:
        ended: list[Any] = []

        async def hanging() -> None:
            try:
                await asyncio.sleep(3600)
            finally:
                ended.append(1)

        caller = asyncio.ensure_future(within(3600, {1: hanging(), 2: hanging()}))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        caller.cancel()
        await asyncio.wait([caller])
        assert caller.cancelled()
        return len(ended)

    assert asyncio.run(run()) == 2
