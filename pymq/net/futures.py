"""What callers share about futures of the event loop."""

from __future__ import annotations

import asyncio
from typing import Any


def mark_seen(done: asyncio.Future[Any]) -> None:
    """Keep the event loop from logging an error that nobody waits for any more. A callback of a future that is done."""
    if not done.cancelled():
        done.exception()
