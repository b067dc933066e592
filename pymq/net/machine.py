"""Facts about the machine this process runs on, and what its C library does with freed memory."""

from __future__ import annotations

import ctypes
import os


def memory_bytes() -> int:
    """Return the machine's memory, not the share that this process may use."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def return_freed_memory() -> None:
    """Give memory that was freed back to the system. Does nothing where the C library is not glibc.

    By itself glibc keeps most of what frames and answers of some MiB took, because later allocations lie behind it.
    """
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, TypeError, AttributeError):
        return
    trim(0)
