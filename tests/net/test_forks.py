"""What a forked child does about the parent's connections."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

import pytest

from pymq.net.forks import release_socket

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system can't fork"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded, use of (fork|forkpty):DeprecationWarning"),  # Python 3.12
]


def test_a_childs_share_does_not_keep_a_connection_open() -> None:
    ours, peers = socket.socketpair()
    released_reading, released_writing = os.pipe()
    child = os.fork()
    if not child:
        release_socket(ours.fileno())
        os.write(released_writing, b"x")
        signal.pause()
        os._exit(0)
    try:
        assert os.read(released_reading, 1) == b"x"
        ours.send(b"open")
        assert peers.recv(10) == b"open", "the parent's share is as it was"
        ours.close()
        peers.settimeout(5)
        assert peers.recv(10) == b"", "the peer sees the end while the child runs"
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        for number in (released_reading, released_writing):
            os.close(number)
        peers.close()


def test_the_number_of_a_released_socket_is_not_given_to_the_next_file() -> None:
    ours, peers = socket.socketpair()
    number = ours.fileno()
    release_socket(number)
    with Path(os.devnull).open() as other:
        assert other.fileno() != number
    release_socket(-1)
    ours.close()
    peers.close()
