"""``--console-port``: a console as a child process, which ends with its parent."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request

from pymq.cli.console.beside import console_member, console_text
from pymq.errors import EXIT_USAGE
from pymq.testing.standalone import StandaloneProcess

DEADLINE_S = 60


def page(url: str) -> str:
    with urllib.request.urlopen(f"{url}/at/default/brokers", timeout=DEADLINE_S) as answer:
        text: str = answer.read().decode()
    return text


def wait_until_closed(url: str) -> None:
    host, _, port = url.partition("://")[2].rpartition(":")
    deadline = time.monotonic() + DEADLINE_S
    while True:
        assert time.monotonic() < deadline, f"{url} answers after {DEADLINE_S} s"
        try:
            socket.create_connection((host, int(port)), DEADLINE_S).close()
        except ConnectionRefusedError:
            return
        time.sleep(0.02)


def test_a_page_shows_the_cluster_and_the_console_ends_with_it() -> None:
    with StandaloneProcess(arguments=["--console-port", "0"]) as server:
        assert server.console.startswith("http://127.0.0.1:")
        assert server.broker in page(server.console)
    wait_until_closed(server.console)


def test_the_console_ends_with_a_parent_that_is_killed() -> None:
    command = [sys.executable, "-m", "pymq", "namesrv", "--port", "0", "--console-port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        assert "No broker is registered" in page(ready["console"])
        os.kill(process.pid, signal.SIGKILL)
        wait_until_closed(ready["console"])


def test_a_port_in_use_ends_the_start_with_its_reason() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        command = [sys.executable, "-m", "pymq", "namesrv", "--port", "0", "--console-port", port]
        done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert done.returncode == EXIT_USAGE
    assert f"127.0.0.1:{port} is in use" in done.stderr and "the console did not start (exit code 2)" in done.stderr


def test_ready_lines_have_the_url() -> None:
    assert (console_text(""), console_member("")) == ("", {})
    assert console_text("http://a:1") == "; console on http://a:1"
    assert console_member("http://a:1") == {"console": "http://a:1"}
