"""Checks a Spark master's URL and the driver's memory before a JVM starts: Spark answers minutes later, in pages."""

from __future__ import annotations

import os
import re
import socket
from typing import Final

from pymq.errors import UnreachableError, UsageError

DEFAULT_MASTER: Final = "local[*]"
DEFAULT_DRIVER_MEMORY: Final = "1g"
# Spark reserves 300 MiB and wants half of that again.
DRIVER_MEMORY_MIN_BYTES: Final = 471_859_200
# A cluster's cores are known once Spark runs, but a plan is made before.
CLUSTER_CORES: Final = 8
CONNECT_TIMEOUT_S: Final = 5.0
_LOCAL = re.compile(r"local(\[(\*|[1-9][0-9]*)(,\s*[1-9][0-9]*)?\])?|local-cluster\[.+\]")
_STANDALONE = re.compile(r"spark://([^,]+(?:,[^,]+)*)")
_OTHERS = ("yarn", "k8s://", "mesos://")
_SIZE = re.compile(r"([0-9]+)([kmgt]?)b?", re.IGNORECASE)
_FACTORS = {"": 1 << 20, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def check_master(url: str) -> None:
    """Raise UsageError for a URL that Spark doesn't know, UnreachableError when no standalone master answers."""
    if _LOCAL.fullmatch(url) or url.startswith(_OTHERS):
        return
    match = _STANDALONE.fullmatch(url)
    if match is None:
        known = "local[2], local[*], spark://host:port, yarn or k8s://..."
        raise UsageError(f"Spark master {url!r} is unknown: write {known}")
    failures = [_connect(address) for address in match.group(1).split(",")]
    if None not in failures:
        raise UnreachableError(f"no Spark master answers at {url}: {failures[0]}; is it running?")


def check_driver_memory(text: str) -> None:
    """Raise UsageError for a size that Spark doesn't understand or that is too small for its driver."""
    match = _SIZE.fullmatch(text)
    if match is None:
        raise UsageError(f"driver memory {text!r} is no size: write 1g or 512m")
    size_bytes = int(match.group(1)) * _FACTORS[match.group(2).lower()]
    if size_bytes < DRIVER_MEMORY_MIN_BYTES:
        raise UsageError(f"driver memory {text} is too little: Spark's driver needs at least 450m")


def _connect(address: str) -> str | None:
    """Return why an address can't be reached, None if it can."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_TIMEOUT_S).close()
    except (OSError, ValueError) as error:
        return f"{address}: {error}"
    return None


def cores_of(master: str) -> int:
    """Return how many tasks the master's URL lets run at once."""
    match = re.fullmatch(r"local(?:\[(\*|[0-9]+).*\])?", master)
    if match is None:
        return CLUSTER_CORES
    text = match.group(1) or "1"
    return (os.cpu_count() or 1) if text == "*" else int(text)
