"""Tasks of the loop whose errors reach the application."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

Fail = Callable[[BaseException], None]


def started(job: Coroutine[Any, Any, None], fail: Fail) -> asyncio.Task[None]:
    """Run a job; ``fail`` gets what it raises."""

    def ended(task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            fail(error)

    task = asyncio.create_task(job)
    task.add_done_callback(ended)
    return task
