"""Opens the admin client for one command and runs the command's coroutine with it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from pymq.cli.options import split_addresses

if TYPE_CHECKING:
    from pymq.client.admin import Admin

T = TypeVar("T")

DEFAULT_TIMEOUT_S = 5.0


def with_admin(namesrv: str, work: Callable[[Admin], Awaitable[T]], timeout_s: float = DEFAULT_TIMEOUT_S) -> T:
    """Calls ``work`` with an Admin for the name servers in ``namesrv`` and returns its result."""
    # Plain asyncio: for a few requests, importing uvloop takes longer than it saves.
    import asyncio

    from pymq.client.admin import Admin

    async def session() -> T:
        async with Admin(split_addresses(namesrv), timeout_s=timeout_s) as admin:
            return await work(admin)

    return asyncio.run(session())


async def until_done_or_stopped(work: Coroutine[Any, Any, None]) -> None:
    """Runs ``work`` until it ends, or until SIGINT or SIGTERM, which normally end a command that follows messages."""
    from pymq.errors import StoppedError
    from pymq.net.runtime import StopSignals

    with StopSignals() as signals, suppress(StoppedError):
        await signals.unless_stopped(work)
