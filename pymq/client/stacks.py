"""The stacks of this process's threads and tasks as text, for operators who ask a consumer what it does."""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback
from types import FrameType

FRAMES_MAX = 40  # of one thread or task, the innermost ones
TASKS_MAX = 100
TEXT_SIZE_MAX = 256 * 1024  # characters


def stacks_text() -> str:
    """Return the stack of every thread, then of every task of the running loop, innermost call last."""
    names = {thread.ident: thread for thread in threading.enumerate()}
    parts = []
    for ident, frame in sys._current_frames().items():
        thread = names.get(ident)
        title = f"thread {thread.name}{' (daemon)' if thread.daemon else ''}" if thread else f"thread {ident}"
        parts.append(_part(title, _frames(frame)))
    tasks = sorted(asyncio.all_tasks(), key=lambda task: task.get_name())
    for task in tasks[:TASKS_MAX]:
        frames = task.get_stack(limit=FRAMES_MAX)
        parts.append(_part(f"task {task.get_name()}", [(frame, frame.f_lineno) for frame in frames]))
    if len(tasks) > TASKS_MAX:
        parts.append(f"{len(tasks) - TASKS_MAX} more tasks\n")
    return "\n".join(parts)[:TEXT_SIZE_MAX]


def _frames(frame: FrameType) -> list[tuple[FrameType, int]]:
    """Return the innermost frames of a thread with their lines, the outermost first."""
    frames = list(traceback.walk_stack(frame))[:FRAMES_MAX]
    return frames[::-1]


def _part(title: str, frames: list[tuple[FrameType, int]]) -> str:
    lines = [f"  {frame.f_code.co_filename}:{line} in {frame.f_code.co_qualname}" for frame, line in frames]
    return "\n".join([title, *(lines or ["  (no frames)"]), ""])
