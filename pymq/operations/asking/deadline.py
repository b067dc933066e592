"""One deadline for several questions: the answers that came, and the reason for each one that is missing."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pymq.errors import PymqError

KeyT = TypeVar("KeyT")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Answers(Generic[KeyT, T]):
    """What came by the deadline, and why the rest is missing, by the keys of the questions."""

    came: dict[KeyT, T]
    missing: dict[KeyT, str]


async def within(timeout_s: float, questions: Mapping[KeyT, Coroutine[Any, Any, T]]) -> Answers[KeyT, T]:
    """Ask all questions side by side, and return the answers of the next ``timeout_s`` seconds.

    A question that raises a PymqError is missing with its text. One without an answer is cancelled. Any other error is
    raised when all questions have ended.
    """
    tasks = {key: asyncio.ensure_future(question) for key, question in questions.items()}
    try:
        if tasks:
            await asyncio.wait(tasks.values(), timeout=timeout_s)
    finally:
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)
    answers: Answers[KeyT, T] = Answers({}, {})
    for key, task in tasks.items():
        if task.cancelled():
            answers.missing[key] = f"no answer within {timeout_s:g} s"
        elif isinstance(error := task.exception(), PymqError):
            answers.missing[key] = str(error)
        else:
            answers.came[key] = task.result()
    return answers
