"""Facts about the machine this process runs on."""

from __future__ import annotations

import os


def page_bytes() -> int:
    """Return the size of a page of memory."""
    return os.sysconf("SC_PAGE_SIZE")


def memory_bytes() -> int:
    """Return the machine's memory, not the share that this process may use."""
    return page_bytes() * os.sysconf("SC_PHYS_PAGES")
