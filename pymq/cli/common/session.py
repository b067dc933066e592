"""The session of one command with a cluster: opens the admin client and runs the command's coroutine with it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from pymq.cli.common.options import known_brokers, request_credentials, request_timeout_s, split_addresses
from pymq.cli.output import print_note
from pymq.errors import EXIT_PARTIAL

if TYPE_CHECKING:
    from pymq.client.admin import Admin

T = TypeVar("T")


class Session:
    """The cluster that a command works on. A command that takes one gets its options: see :mod:`pymq.cli.declared`."""

    def __init__(self, namesrv: str) -> None:
        """``namesrv``: the addresses of the name servers, separated by ``;``."""
        self.namesrv = namesrv

    def ask(self, work: Callable[[Admin], Awaitable[T]], timeout_s: float | None = None) -> T:
        """Open an Admin, call ``work`` with it, and return the result.

        Each request may take ``timeout_s``, by default as long as the command's option ``--timeout`` says.
        """
        return self._run(work, is_partial=False, timeout_s=timeout_s)[0]

    def ask_reachable(self, work: Callable[[Admin], Awaitable[T]]) -> tuple[T, dict[str, str]]:
        """Do what :meth:`ask` does on a cluster of which some brokers can't be reached.

        Return the result without their part, and their names with the reasons: print it, then call
        :func:`end_partial`.
        """
        return self._run(work, is_partial=True)

    def ask_all(self, work: Callable[[Admin], Awaitable[T]]) -> tuple[T, dict[str, str]]:
        """Do what :meth:`ask_reachable` does, but an unreachable broker ends the command before it changes anything.

        What is left to name are brokers of which only slaves run.
        """
        return self._run(work, is_partial=False)

    def _run(
        self, work: Callable[[Admin], Awaitable[T]], *, is_partial: bool, timeout_s: float | None = None
    ) -> tuple[T, dict[str, str]]:
        # Plain asyncio: for a few requests, importing uvloop takes longer than it saves.
        import asyncio

        from pymq.client.admin import Admin

        async def session() -> tuple[T, dict[str, str]]:
            each_s = request_timeout_s.get() if timeout_s is None else timeout_s
            async with Admin(
                split_addresses(self.namesrv),
                timeout_s=each_s,
                is_partial=is_partial,
                credentials=request_credentials.get(),
            ) as admin:
                result = await work(admin)
                return result, {**await missing_brokers(admin, self.namesrv), **admin.unreached}

        return asyncio.run(session())


def end_partial(unreached: Mapping[str, str], *, is_change: bool = False) -> None:
    """Name the brokers whose part is missing, and end the command with EXIT_PARTIAL if there are any."""
    for broker, reason in sorted(unreached.items()):
        what = f"{broker} was not changed" if is_change else f"the part of {broker} is missing"
        print_note(f"pymq: {what}: {reason}")
    if unreached:
        raise typer.Exit(EXIT_PARTIAL)


async def missing_brokers(admin: Admin, namesrv: str) -> dict[str, str]:
    """Return the brokers that the command's context names and no name server lists, with the reason.

    A name server forgets a broker that hangs after two minutes, so what is left looks like all there is.
    """
    known = known_brokers.get()
    if known is None or not known.names or known.namesrv != namesrv:
        return {}
    return known.missing_in(namesrv, (await admin.cluster.info()).broker_addr_table)


async def until_done_or_stopped(work: Coroutine[Any, Any, None]) -> None:
    """Run ``work`` until it ends, or until SIGINT or SIGTERM, which normally end a command that follows messages."""
    from pymq.errors import StoppedError
    from pymq.net.runtime import StopSignals

    with StopSignals() as signals, suppress(StoppedError):
        await signals.unless_stopped(work)
