"""What is to be known of the machine this process runs on."""

from __future__ import annotations

import os


def memory_bytes() -> int:
    """Its memory; what the process may use of it is not asked."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
