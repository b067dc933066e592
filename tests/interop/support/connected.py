"""Clients of any language that stay connected as one user: each sends and consumes, and tells what became of it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from pymq.client import Credentials
from tests.interop.support import cpp, golang, nodejs
from tests.interop.support.pymq_server import PymqServer
from tests.interop.support.running import RunningJava, RunningProgram
from tests.interop.support.tools import require

DEADLINE_S = 90
START = Callable[[list[str], Path, Callable[[str], None]], RunningProgram]


class ConnectedUser:
    """A connected producer and consumer of one user, in a process of their own."""

    def __init__(
        self, start: START, server: PymqServer, topic: str, group: str, user: Credentials | None, directory: Path
    ) -> None:
        """``user``: None signs nothing."""
        self._told = threading.Condition()
        self.lines: list[str] = []
        keys = [user.access_key, user.reveal()] if user is not None else ["", ""]
        self._running = start([server.namesrv, topic, group, *keys], directory, self._hear)

    def _hear(self, line: str) -> None:
        with self._told:
            self.lines.append(line.strip())
            self._told.notify_all()

    async def told(self, is_it: Callable[[str], bool]) -> str:
        """Return the first line that it is; raise AssertionError when there is none in time."""

        def wait() -> str:
            with self._told:
                assert self._told.wait_for(lambda: any(map(is_it, self.lines)), DEADLINE_S), self.lines
                return next(filter(is_it, self.lines))

        return await asyncio.to_thread(wait)

    async def send(self, body: str) -> str:
        """Return what became of a message."""
        self._running.write_line(body)
        return (await self.told(lambda line: line.startswith(f"sent {body}: "))).partition(": ")[2]

    async def has_consumed(self, body: str) -> None:
        await self.told(lambda line: line == f"consumed {body}")

    def end(self) -> None:
        self._running.end(DEADLINE_S)


def java_user(
    server: PymqServer,
    topic: str,
    group: str,
    user: Credentials | None,
    directory: Path,
    *,
    jvm_flags: Sequence[str] = (),
) -> ConnectedUser:
    """Return a user of Java's client 5.3.3."""

    def start(arguments: list[str], home: Path, on_line: Callable[[str], None]) -> RunningProgram:
        return RunningJava("connected", arguments, home, on_line, artifact_set="server-5.3.3", jvm_flags=jvm_flags)

    return ConnectedUser(start, server, topic, group, user, directory)


def start_java_4(arguments: list[str], directory: Path, on_line: Callable[[str], None]) -> RunningProgram:
    return RunningJava("connected", arguments, directory, on_line, artifact_set="signed-4.9.8")


def start_go(arguments: list[str], directory: Path, on_line: Callable[[str], None]) -> RunningProgram:
    command = [str(golang.built_program()), "connected", *arguments]
    return RunningProgram(command, directory, on_line, env={"HOME": str(directory)})


def start_cpp(arguments: list[str], directory: Path, on_line: Callable[[str], None]) -> RunningProgram:
    command = [str(cpp.interpreter()), str(cpp.CONNECTED_PROGRAM), *arguments]
    return RunningProgram(command, directory, on_line, env={"HOME": str(directory)})


def start_node(arguments: list[str], directory: Path, on_line: Callable[[str], None]) -> RunningProgram:
    (node,) = require("node")
    env = {"HOME": str(directory), "INTEROP_MODULES": str(nodejs.modules_directory())}
    return RunningProgram([node, str(nodejs.SOURCES / "connected.js"), *arguments], directory, on_line, env=env)
