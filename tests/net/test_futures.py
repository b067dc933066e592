"""An error that nobody waits for is not logged once it is marked as seen."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from pymq.net.futures import mark_seen


@pytest.mark.parametrize("is_seen", [True, False])
def test_an_error_that_is_marked_as_seen_is_not_logged(is_seen: bool) -> None:
    logged: list[dict[str, Any]] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: logged.append(context))
        failed: asyncio.Future[None] = loop.create_future()
        failed.set_exception(ValueError("nobody waits"))
        cancelled: asyncio.Future[None] = loop.create_future()
        cancelled.cancel()
        if is_seen:
            mark_seen(failed)
            mark_seen(cancelled)
        del failed, cancelled
        gc.collect()

    asyncio.run(main())
    assert len(logged) == (0 if is_seen else 1)
