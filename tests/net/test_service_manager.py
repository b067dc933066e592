"""What the service manager hears, over a real socket; and that nothing happens without one."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from pymq.net.service_manager import VARIABLE, notify


@pytest.mark.parametrize("is_abstract", [False, True])
def test_a_state_is_sent_to_the_socket_of_the_environment(is_abstract: bool, tmp_path: Path) -> None:
    path = str(tmp_path / "notify")
    name = f"@pymq-test-{os.getpid()}" if is_abstract else path
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        try:
            manager.bind(name.replace("@", "\0", 1) if is_abstract else path)
        except OSError:
            pytest.skip("this system has no such sockets")
        assert notify("READY=1\nSTATUS=2 of 2", {VARIABLE: name})
        assert manager.recv(100) == b"READY=1\nSTATUS=2 of 2"


@pytest.mark.parametrize("address", ["", "relative", "/nothing/here", "vsock:1:2", "/" + "x" * 500])
def test_without_a_manager_nothing_happens(address: str) -> None:
    assert not notify("READY=1", {VARIABLE: address} if address else {})
