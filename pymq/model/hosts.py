"""Socket addresses as text (``127.0.0.1:10911``) and as stored in records (address bytes and a 32-bit port)."""

from __future__ import annotations

import ipaddress
import re
import struct
from functools import lru_cache

_PORT = struct.Struct(">i")
# An IPv6 host may come without brackets, as Java's addresses have none. Colons alone are not a host.
_ADDRESS = re.compile(r"(?:\[([^][]+)\]|([^][]*[^][:][^][]*)):([0-9]{1,5})")


@lru_cache(maxsize=4096)
def pack_host(host: str, port: int) -> bytes:
    """Return 8 bytes for IPv4, 20 for IPv6. Raises ValueError for text that is not an IP address."""
    return ipaddress.ip_address(host.partition("%")[0]).packed + _PORT.pack(port)


def unpack_host(raw: bytes | memoryview) -> tuple[str, int]:
    """The inverse of :func:`pack_host`."""
    return str(ipaddress.ip_address(bytes(raw[:-4]))), _PORT.unpack(raw[-4:])[0]


def format_address(host: str, port: int) -> str:
    """Return ``host:port``, with brackets around an IPv6 host."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def host_of(address: str) -> str:
    """Return the host of ``host:port``, unchecked; empty without a port."""
    return address.rpartition(":")[0]


def parse_address(text: str) -> tuple[str, int]:
    """Return (host, port) of ``host:port``. Raises ValueError when there is no port between 0 and 65535."""
    match = _ADDRESS.fullmatch(text.strip())
    if match is None or int(match.group(3)) > 65535:
        raise ValueError(f"{text!r} is not an address: write host:port, for example 127.0.0.1:9876 or [::1]:9876")
    return match.group(1) or match.group(2), int(match.group(3))
