"""Questions that may fail."""

from __future__ import annotations

import asyncio

import pytest

from pymq.errors import UnreachableError
from pymq.operations.asking.failing import or_none


def test_a_question_that_fails_has_no_answer() -> None:
    async def fail(error: Exception) -> str:
        raise error

    assert asyncio.run(or_none(fail(UnreachableError("away")))) is None
    with pytest.raises(ValueError, match="a bug"):
        asyncio.run(or_none(fail(ValueError("a bug"))))
