"""The guard sees every way to a default port, and tests find the same environment on every machine."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from pymq.cli import main as cli
from pymq.errors import EXIT_UNREACHABLE
from tests.machine import BROKER_PORT, NOWHERE, PORTS, isolated

uvloop = pytest.importorskip("uvloop")


def noted() -> list[str]:
    """Return what the guard has seen so far, and clear it, because the guard would fail this test too."""
    touched, PORTS.touched = PORTS.touched, []
    return touched


async def _connect() -> None:
    await asyncio.get_running_loop().create_connection(asyncio.Protocol, "127.0.0.1", BROKER_PORT)


async def _listen() -> None:
    await asyncio.get_running_loop().create_server(asyncio.Protocol, "127.0.0.1", BROKER_PORT)


@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize(("use", "verb"), [(_connect, "connected to"), (_listen, "listened on")])
def test_an_event_loop_is_guarded(
    loop_factory: Callable[[], asyncio.AbstractEventLoop],
    use: Callable[[], Coroutine[Any, Any, None]],
    verb: str,
) -> None:
    with asyncio.Runner(loop_factory=loop_factory) as runner, pytest.raises(OSError, match="the tests' guard"):
        runner.run(use())
    assert noted() == [f"{verb} 127.0.0.1:{BROKER_PORT} (broker)"]


@pytest.mark.parametrize("method", ["connect", "connect_ex", "bind"])
def test_a_socket_is_guarded(method: str) -> None:
    with socket.socket() as own, pytest.raises(OSError, match="the tests' guard"):
        getattr(own, method)(("127.0.0.1", BROKER_PORT))
    with pytest.raises(pytest.fail.Exception, match="must not touch a default port"):
        PORTS.check()
    assert noted() == []


def test_other_ports_and_paths_are_not(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()):
        pass
    with socket.socket(socket.AF_UNIX) as local:
        local.bind(str(tmp_path / "s"))
    assert noted() == []


def test_a_command_without_a_name_server_finds_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["topic", "list"]) == EXIT_UNREACHABLE
    assert NOWHERE in capsys.readouterr().err


def test_a_process_sees_no_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Variables of a developer's shell do not reach a process."""
    said = {
        "NAMESRV_ADDR": "10.9.9.9:9876",
        "ROCKETMQ_HOME": "/opt/rocketmq",
        "PYMQ_DEBUG": "1",
        "COLUMNS": "20",
        "TZ": "EST5EDT,M3.2.0,M11.1.0",
        "LC_ALL": "C",
        "https_proxy": "http://10.9.9.9:3128",
        "PYMQ_KILL_COUNT": "7",
    }
    for name, value in said.items():
        monkeypatch.setenv(name, value)
    program = (
        "import os, pathlib, time; mask = os.umask(0); "
        "print(os.environ.get('NAMESRV_ADDR'), oct(mask), time.tzname[0], pathlib.Path.home(), "
        f"[name for name in {list(said)!r} if name in os.environ])"
    )
    before = os.umask(0o077)
    try:
        with isolated(tmp_path) as machine:
            done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
            assert time.tzname[0] == "UTC"
    finally:
        os.umask(before)
        monkeypatch.undo()
        time.tzset()
    assert said.items() <= machine.items()
    kept = ["NAMESRV_ADDR", "COLUMNS", "TZ", "PYMQ_KILL_COUNT"]
    assert done.stdout.split(maxsplit=4) == [NOWHERE, "0o22", "UTC", str(tmp_path), f"{kept}\n"]
