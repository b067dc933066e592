"""Tells the service manager that started this process how it is, as systemd's units of Type=notify expect it."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

VARIABLE = "NOTIFY_SOCKET"


def notify(state: str, environ: Mapping[str, str] = os.environ) -> bool:
    """Send lines such as ``READY=1``; return whether a service manager took them. Nothing is sent without one."""
    address = environ.get(VARIABLE, "")
    if not address.startswith(("/", "@")):
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as link:
        link.setblocking(False)
        try:
            link.sendto(state.encode(), address.replace("@", "\0", 1) if address[0] == "@" else address)
        except OSError:
            return False
    return True
