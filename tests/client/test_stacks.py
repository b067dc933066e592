"""The stacks that a consumer shows to operators."""

from __future__ import annotations

import asyncio
import threading

from pymq.client import stacks
from pymq.client.stacks import stacks_text


def test_threads_and_tasks_are_shown_with_what_they_do() -> None:
    go = threading.Event()
    ready = threading.Event()

    def blocked_handler() -> None:
        ready.set()
        go.wait(60)

    async def waiting_task() -> None:
        await asyncio.sleep(60)

    async def story() -> str:
        task = asyncio.create_task(waiting_task(), name="a waiting one")
        await asyncio.sleep(0)
        text = stacks_text()
        task.cancel()
        return text

    thread = threading.Thread(target=blocked_handler, name="handler-1", daemon=True)
    thread.start()
    assert ready.wait(60)
    text = asyncio.run(story())
    go.set()
    thread.join()
    assert "thread handler-1 (daemon)" in text and "blocked_handler" in text
    assert "task a waiting one" in text and "waiting_task" in text


def test_the_text_is_bounded() -> None:
    async def story() -> str:
        tasks = [asyncio.create_task(asyncio.sleep(60)) for _ in range(3 * stacks.TASKS_MAX)]
        await asyncio.sleep(0)
        text = stacks_text()
        for task in tasks:
            task.cancel()
        return text

    text = asyncio.run(story())
    assert text.count("\ntask ") == stacks.TASKS_MAX
    assert "more tasks" in text and len(text) <= stacks.TEXT_SIZE_MAX
