"""The console of a server's command: a child process, so that pages never hold up a send."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Annotated

import typer

from pymq.cli.output import print_note
from pymq.errors import UsageError

if TYPE_CHECKING:
    from asyncio.subprocess import Process

READY_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 15.0

ConsolePortOption = Annotated[
    int | None,
    typer.Option(
        "--console-port",
        metavar="PORT",
        min=0,
        max=65535,
        help="Serve pages to browsers on this machine on this port, 0 for any free one; default none.",
    ),
]


@asynccontextmanager
async def console_beside(port: int | None, namesrv: str) -> AsyncIterator[str]:
    """Run ``pymq console`` in a process of its own while the block runs; yield its URL, "" without a port.

    ``namesrv``: "host:port". The process ends with this one, however this one ends. Raises UsageError when it does not
    become ready.
    """
    if port is None:
        yield ""
        return
    import asyncio

    from pymq.net.runtime import ENDS_WITH_INPUT

    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pymq", "console", "--namesrv", _reachable(namesrv), "--port", str(port), "--json"),
        *("--log-level", "warning"),
        stdin=asyncio.subprocess.PIPE,  # held open: when this process is killed, the console ends as well
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, ENDS_WITH_INPUT: "1"},
        start_new_session=True,  # Ctrl-C reaches this process alone, which then ends the console
    )
    try:
        url = await _ready(process)
        watch = asyncio.ensure_future(_say_its_end(process))
        try:
            yield url
        finally:
            watch.cancel()
    finally:
        await _end(process)


def _reachable(namesrv: str) -> str:
    """Return where this machine reaches a name server that may listen at all its addresses."""
    host, _, port = namesrv.rpartition(":")
    return f"127.0.0.1:{port}" if host in ("", "0.0.0.0") else f"[::1]:{port}" if host in ("::", "[::]") else namesrv  # noqa: S104


async def _ready(process: Process) -> str:
    import asyncio
    import json

    assert process.stdout is not None
    try:
        async with asyncio.timeout(READY_TIMEOUT_S):
            line = await process.stdout.readline()
    except TimeoutError:
        raise UsageError(
            f"the console was not ready after {READY_TIMEOUT_S:g} s: start it alone, pymq console"
        ) from None
    if not line:
        raise UsageError(f"the console did not start (exit code {await process.wait()}): its reason stands above")
    url: str = json.loads(line)["console"]
    return url


async def _say_its_end(process: Process) -> None:
    code = await process.wait()
    print_note(f"pymq: warning: the console ended with exit code {code}; start it again with: pymq console")


async def _end(process: Process) -> None:
    import asyncio

    with suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(STOP_TIMEOUT_S):
            await process.wait()
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def console_text(url: str) -> str:
    """Return the addition to a ready line."""
    return f"; console on {url}" if url else ""


def console_member(url: str) -> dict[str, str]:
    """Return the addition to a ready object."""
    return {"console": url} if url else {}
