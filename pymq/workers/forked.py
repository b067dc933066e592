"""Workers that a fork server starts: in a fifth of a second, and with one copy of the program in memory for all."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from pymq.net.fork_server import PACKET_MAX_BYTES, BegunServer
from pymq.net.runtime import ENDS_WITH_INPUT
from pymq.net.service_manager import VARIABLE as SERVICE_VARIABLE

LOST_CODE = 1  # of a child whose fork server ended before it


def can_fork() -> bool:
    """Return whether this system has what a fork server needs; others start each worker as a new program."""
    return hasattr(os, "pidfd_open") and hasattr(socket, "recv_fds") and hasattr(signal, "pidfd_send_signal")


def worker_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a worker: it ends with its input, and is nothing to the service manager."""
    return {key: value for key, value in environ.items() if key != SERVICE_VARIABLE} | {ENDS_WITH_INPUT: "1"}


def _changes(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str | None]:
    """Return what makes one environment of another; None: without this variable."""
    changed = {key: value for key, value in after.items() if before.get(key) != value}
    return changed | dict.fromkeys(before.keys() - after.keys())


class _Pipes(NamedTuple):
    """This process's ends of a child's pipes; ``output`` is what ``stdout`` reads from."""

    stdin: asyncio.StreamWriter
    stdout: asyncio.StreamReader
    output: asyncio.ReadTransport


class ForkedChild:
    """A child, as far as :class:`asyncio.subprocess.Process` is needed."""

    def __init__(self, pid: int, pipes: _Pipes) -> None:
        self.pid = pid
        self.stdin = pipes.stdin
        self.stdout = pipes.stdout
        self._output = pipes.output
        self.returncode: int | None = None
        # Stands for this process even when its number is another one's by now.
        try:
            self._pidfd = os.pidfd_open(pid)
        except ProcessLookupError:
            self._pidfd = -1  # it has ended, and its code is on the way
        self._ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def ended(self, code: int) -> None:
        """Take the code with which it ended."""
        if self.returncode is None:
            self.returncode = code
            self._ended.set_result(code)
            if self._pidfd >= 0:
                asyncio.get_running_loop().remove_reader(self._pidfd)
                os.close(self._pidfd)
            self.stdin.close()
            self._output.close()

    def orphaned(self) -> None:
        """Watch for the end itself: who would report it has ended."""
        if self._pidfd < 0:
            self.ended(LOST_CODE)
        elif self.returncode is None:
            asyncio.get_running_loop().add_reader(self._pidfd, self.ended, LOST_CODE)

    async def wait(self) -> int:
        return await asyncio.shield(self._ended)

    def terminate(self) -> None:
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        if self.returncode is None and self._pidfd >= 0:
            signal.pidfd_send_signal(self._pidfd, number)


class _OwnServer:
    """A server that this process forked off itself, as far as :class:`asyncio.subprocess.Process` is needed."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._pidfd = os.pidfd_open(pid)
        self._code = 0

    def terminate(self) -> None:
        if self._pidfd >= 0:
            signal.pidfd_send_signal(self._pidfd, signal.SIGTERM)

    async def wait(self) -> int:
        if self._pidfd >= 0:
            loop, ended = asyncio.get_running_loop(), asyncio.Event()
            loop.add_reader(self._pidfd, ended.set)
            await ended.wait()
            loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1
            self._reap()
        return self._code

    def _reap(self) -> None:
        _, status = os.waitpid(self.pid, 0)
        self._code = os.waitstatus_to_exitcode(status)


class ForkServer:
    """The process that forks workers. It is started at the first one, and again when it has ended."""

    def __init__(self, command: Sequence[str], environ: Mapping[str, str], begun: BegunServer | None = None) -> None:
        """``command``: a program that calls :func:`pymq.net.fork_server.serve` with the socket of its last word.

        ``environ``: the environment of workers; each start sends how it differs from this process's. ``begun``: the
        first server, which runs.
        """
        self._command = command
        self._changes = _changes(os.environ, worker_environ(environ))
        self._begun = begun
        self._process: asyncio.subprocess.Process | _OwnServer | None = None
        self._control: socket.socket | None = None
        self._children: dict[int, ForkedChild] = {}
        self._ended_early: dict[int, int] = {}
        self._asked: deque[asyncio.Future[int]] = deque()
        self._turn = asyncio.Lock()

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    async def prepare(self) -> None:
        """Start the server, which needs a moment to load its program. Raises OSError."""
        async with self._turn:
            if self._control is None:
                await self._begin()

    async def start(self, arguments: Sequence[str]) -> ForkedChild:
        """Fork a child with these arguments. Raises OSError when the server does not start or has ended."""
        async with self._turn:
            control = self._control or await self._begin()
            loop = asyncio.get_running_loop()
            input_end, own_input = os.pipe()
            own_output, output_end = os.pipe()
            answer: asyncio.Future[int] = loop.create_future()
            try:
                asked = {"arguments": list(arguments), "environ": self._changes}
                socket.send_fds(control, [json.dumps(asked).encode()], [input_end, output_end])
                self._asked.append(answer)
                pid = await answer
            except OSError:
                os.close(own_input)
                os.close(own_output)
                raise
            finally:
                os.close(input_end)
                os.close(output_end)
            child = ForkedChild(pid, await _pipes(own_input, own_output))
            self._children[pid] = child
            if pid in self._ended_early:
                self._children.pop(pid).ended(self._ended_early.pop(pid))
            return child

    async def _begin(self) -> socket.socket:
        if self._begun is not None:
            self._process, control = _OwnServer(self._begun.pid), self._begun.control
            self._begun = None
        else:
            control = await self._begin_program()
        control.setblocking(False)
        self._control = control
        asyncio.get_running_loop().add_reader(control, self._read, control)
        return control

    async def _begin_program(self) -> socket.socket:
        control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            try:
                self._process = await asyncio.create_subprocess_exec(
                    *(*self._command, str(theirs.fileno())),
                    stdin=asyncio.subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,
                )
            except BaseException:
                control.close()
                raise
        return control

    def _read(self, control: socket.socket) -> None:
        try:
            raw = control.recv(PACKET_MAX_BYTES)
        except BlockingIOError:
            return
        except OSError:
            raw = b""
        if not raw:
            self._end(control)
            return
        found = json.loads(raw)
        pid, code = found["pid"], found.get("code")
        if code is None:
            self._asked.popleft().set_result(pid)
        elif pid in self._children:
            self._children.pop(pid).ended(code)
        else:
            self._ended_early[pid] = code

    def _end(self, control: socket.socket) -> None:
        """Take the end of the server: its children go on."""
        asyncio.get_running_loop().remove_reader(control)
        control.close()
        self._control = None
        while self._asked:
            self._asked.popleft().set_exception(OSError("the process that forks workers has ended"))
        for child in self._children.values():
            child.orphaned()
        self._children.clear()

    async def stop(self) -> None:
        """End the server. Call it when its children have ended."""
        if self._begun is not None:
            await self._begin()
        if self._control is not None:
            self._end(self._control)
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.terminate()
            await self._process.wait()


async def _pipes(own_input: int, own_output: int) -> _Pipes:
    """Return this process's ends of a child's pipes."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    output, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(own_output, "rb", 0)
    )
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, os.fdopen(own_input, "wb", 0))
    return _Pipes(asyncio.StreamWriter(transport, protocol, None, loop), reader, output)
