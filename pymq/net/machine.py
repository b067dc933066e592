"""Facts about the machine this process runs on."""

from __future__ import annotations

import os


def memory_bytes() -> int:
    """Return the machine's memory, not the share that this process may use."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
