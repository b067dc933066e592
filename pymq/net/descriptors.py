"""File descriptors of the process: the limit is raised at the start, and connections leave a part of it to files."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from typing import Any

try:
    import resource
except ImportError:  # a system without such limits
    resource = None  # type: ignore[assignment]

# Connections leave a quarter of the descriptors, at most so many, to files and to what the process opens itself.
RESERVED_SHARE = 4
RESERVED_COUNT_MAX = 4096
UNLIMITED_COUNT = 1 << 20  # assumed where the system names no limit
LOW_COUNT = 4096  # a lower limit is reported at the start

log = logging.getLogger(__name__)


def raise_descriptor_limit() -> None:
    """Let the process open as many files as its user may; systems begin with less, often 1,024. Report a low limit."""
    if resource is None:
        return
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = UNLIMITED_COUNT if most == resource.RLIM_INFINITY else most
    with contextlib.suppress(ValueError, OSError):  # a system may allow less than it says
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
    limit = descriptor_limit()
    if limit < LOW_COUNT:
        log.warning(
            "the process may open %d files, servers need %d or more: they accept %d connections; raise the limit "
            "(ulimit -n, LimitNOFILE)",
            limit,
            LOW_COUNT,
            limit - reserved_count(limit),
        )


def descriptor_limit() -> int:
    """Return how many descriptors the process may have."""
    if resource is None:
        return UNLIMITED_COUNT
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return UNLIMITED_COUNT if limit == resource.RLIM_INFINITY else limit


def open_count() -> int | None:
    """Return how many descriptors the process has now, None where the system doesn't say. Reads a directory."""
    for directory in ("/proc/self/fd", "/dev/fd"):
        with contextlib.suppress(OSError), os.scandir(directory) as entries:
            return sum(1 for _ in entries) - 1  # one is the directory's own
    return None


def reserved_count(limit: int) -> int:
    """Return how many descriptors of ``limit`` connections must not take."""
    return min(limit // RESERVED_SHARE, RESERVED_COUNT_MAX)


def takes_reserved(transport: asyncio.BaseTransport) -> bool:
    """Return True for an accepted connection that has one of the reserved descriptors: close it.

    A system gives the lowest free number, so this one says how many the process has, whatever they are.
    """
    endpoint: Any = transport.get_extra_info("socket")
    if endpoint is None:
        return False
    return is_reserved(endpoint.fileno())


def is_reserved(number: int) -> bool:
    """Return True for the number of a descriptor that connections must not take."""
    limit = descriptor_limit()
    return number >= limit - reserved_count(limit)
