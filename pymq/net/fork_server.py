"""A process that has loaded a program once and forks a child for each request: they start at once and share its memory.

Requests come over a socket of whole packets: the child's arguments and its changes to the environment as JSON, and two
descriptors, its standard input and output. Answers are the child's process id, and later the code with which it ended.
The end of the socket ends the server, not its children.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, NamedTuple, NoReturn

PACKET_MAX_BYTES: Final = 1024 * 1024
DESCRIPTORS: Final = 2

Run = Callable[[list[str]], int]


class BegunServer(NamedTuple):
    """A server that this process forked off itself, and the socket to it."""

    pid: int
    control: socket.socket


def fork_off(program: Callable[[socket.socket], None]) -> BegunServer:
    """Fork a server off this process, whose modules it has then, too. ``program`` calls :func:`serve` with its socket.

    Call it before the process has threads or an event loop. Raises OSError.
    """
    control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            control.close()
            os.setsid()
            nothing = os.open(os.devnull, os.O_RDONLY)
            os.dup2(nothing, 0)
            os.close(nothing)
            program(theirs)
            code = 0
        except Exception:
            traceback.print_exc()
        finally:
            os._exit(code)  # nothing of the process before is to run in the server
    theirs.close()
    return BegunServer(pid, control)


def serve(control: socket.socket, run: Run) -> None:
    """Fork for each request until the socket ends; a child is ``run`` with its arguments, and ends with the result."""
    wake, waker = socket.socketpair()
    for end in (wake, waker):
        end.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waker.fileno())
    while True:
        ready, _, _ = select.select([control, wake], [], [])
        if wake in ready:
            with suppress(BlockingIOError):
                wake.recv(4096)
            _report_ends(control)
        if control not in ready:
            continue
        raw, descriptors, _, _ = socket.recv_fds(control, PACKET_MAX_BYTES, DESCRIPTORS)
        if not raw:
            return
        pid = os.fork()
        if pid == 0:
            _become(run, **json.loads(raw), descriptors=descriptors, inherited=[control, wake, waker])
        for descriptor in descriptors:
            os.close(descriptor)
        _send(control, {"pid": pid})


def _become(
    run: Run,
    arguments: list[str],
    environ: dict[str, str | None],
    descriptors: list[int],
    inherited: list[socket.socket],
) -> NoReturn:
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        for number, descriptor in enumerate(descriptors):
            os.dup2(descriptor, number)
            os.close(descriptor)
        for each in inherited:
            each.close()
        for key, value in environ.items():
            if value is None:
                os.environ.pop(key, None)
            else:
                os.environ[key] = value
        code = run(arguments)
    finally:
        os._exit(code)  # nothing of the server's is to run in the child


def _report_ends(control: socket.socket) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        _send(control, {"pid": pid, "code": os.waitstatus_to_exitcode(status)})


def _send(control: socket.socket, answer: dict[str, Any]) -> None:
    with suppress(OSError):  # the one who asked has ended
        control.send(json.dumps(answer).encode())
