"""Connection errors in the words of the operating system."""

from __future__ import annotations

import errno
import socket

import pytest

from pymq.net.os_errors import os_error_text


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"), "Connection reset by peer"),
        (OSError(errno.ECONNREFUSED, "Connect call failed ('127.0.0.1', 10911)"), "Connection refused"),
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "Name or service not known"),
        (OSError("Multiple exceptions: one, two"), "Multiple exceptions: one, two"),
        (RuntimeError("something else"), "something else"),
    ],
)
def test_os_errors_use_the_text_of_the_system(error: Exception, text: str) -> None:
    assert os_error_text(error) == text
