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


@lru_cache(maxsize=4096)
def unpack_address(raw: bytes) -> str:
    """Return ``host:port`` of a packed host."""
    return format_address(*unpack_host(raw))


def format_address(host: str, port: int) -> str:
    """Return ``host:port``, with brackets around an IPv6 host."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def host_of(address: str) -> str:
    """Return the host of ``host:port``, unchecked; empty without a port."""
    return address.rpartition(":")[0]


def host_in_header(text: str) -> str:
    """Return the host in a Host header of HTTP, in lower case, without port, brackets and a dot at its end."""
    text = text.strip().lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0].removesuffix(".")


def is_same_host(host: str, address: str) -> bool:
    """Return whether a host is the IP address ``address``, whatever way it is written."""
    try:
        one, other = ipaddress.ip_address(host), ipaddress.ip_address(address)
    except ValueError:
        return False
    return one == other or getattr(other, "ipv4_mapped", None) == one


def parse_address(text: str) -> tuple[str, int]:
    """Return (host, port) of ``host:port``. Raises ValueError when there is no port between 0 and 65535."""
    match = _ADDRESS.fullmatch(text.strip())
    if match is None or int(match.group(3)) > 65535:
        raise ValueError(f"{text!r} is not an address: write host:port, for example 127.0.0.1:9876 or [::1]:9876")
    return match.group(1) or match.group(2), int(match.group(3))


HTTP_PREFIX, HTTPS_PREFIX = "http://", "https://"


def is_address_server(text: str) -> bool:
    """Return whether a place of name servers is the URL of an address server, which names them."""
    return text.startswith((HTTP_PREFIX, HTTPS_PREFIX))


def check_name_server(text: str) -> None:
    """Raise ValueError for a text that is neither ``host:port`` nor the URL of an address server with a path."""
    if not is_address_server(text):
        parse_address(text)
        return
    place, slash, path = text.partition("://")[2].partition("/")
    host, colon, port = place.rpartition(":")
    is_port = port.isdigit() and 0 < int(port) < 65536
    if not slash or not path or not place or (colon and not (host and is_port)) or not text.isprintable():
        raise ValueError(
            f"{text!r} is no address server: write its whole URL, for example http://10.0.0.1:8080/rocketmq/nsaddr"
        )


def server_place(text: str) -> str:
    """Return ``host:port`` of a name server or of an address server (port 80 or 443 by default)."""
    if not is_address_server(text):
        return text
    place = text.partition("://")[2].partition("/")[0]
    default_port = 443 if text.startswith(HTTPS_PREFIX) else 80
    return place if ":" in place else f"{place}:{default_port}"
