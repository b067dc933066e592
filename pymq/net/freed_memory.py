"""FreedMemory: gives memory that this process has freed back to the system, at the latest after some seconds.

By itself glibc keeps most of what frames and answers of some MiB took: up to 64 MiB at the end of its heap, and all
that later allocations lie behind. Of smaller ones, it gives each back at once, and the system fills every page with
zeros when the next one takes it: a third of what answers of 200 KiB cost. :func:`keep_for_reuse` mends that.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from pymq.clock import Clock
from pymq.net.machine import page_bytes

GROWTH_BYTES = 16 * 1024 * 1024
TRIM_PERIOD_MS = 5_000  # returned memory costs a page fault for each 4 KiB when it is needed again
UNASKED_PERIOD_MS = 600_000  # what was in use at one trim is returned by the next one, even if nothing grows any more
# Blocks below the first size come from the heap, and up to the second one stays free at its end.
MMAP_THRESHOLD_BYTES = 8 * 1024 * 1024  # the largest ordinary frame (maxMessageSize, 4 MiB) and what is around it
TRIM_THRESHOLD_BYTES = GROWTH_BYTES
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of glibc's mallopt


def private_bytes() -> int:
    """Return the memory that only this process has, 0 where the system does not say. Mapped files don't count."""
    try:
        with open("/proc/self/statm", "rb") as file:  # noqa: PTH123 - a Path costs as much as the read
            fields = file.read().split()
    except OSError:
        return 0
    return (int(fields[1]) - int(fields[2])) * page_bytes()


def return_freed_memory() -> None:
    """Have the C library return what it can. Does nothing where it is not glibc."""
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, TypeError, AttributeError):
        return
    trim(0)


def keep_for_reuse() -> None:
    """Have the C library keep freed memory for the next frames and answers; :class:`FreedMemory` returns what is left.

    Does nothing where it is not glibc.
    """
    try:
        choose = ctypes.CDLL(None).mallopt
    except (OSError, TypeError, AttributeError):
        return
    choose(_M_TRIM_THRESHOLD, TRIM_THRESHOLD_BYTES)
    choose(_M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES)


class FreedMemory:
    """Decides when to trim: when the process has grown by GROWTH_BYTES beside what it holds for its peers.

    The budget alone can't tell. A frame of 16 MiB takes as much again for each of its copies, and none is counted.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        measure: Callable[[], int] = private_bytes,
        trim: Callable[[], None] = return_freed_memory,
    ) -> None:
        self._clock = clock
        self._measure = measure
        self._trim = trim
        self._least_bytes: int | None = None  # least memory beside the budget's since the last trim
        self._trimmed_ms = clock.monotonic_ms()

    def look(self, held_bytes: int) -> None:
        """Trim when it is due. ``held_bytes``: what the process holds for its peers now."""
        since_ms = self._clock.monotonic_ms() - self._trimmed_ms
        beside_bytes = self._measure() - held_bytes
        if self._least_bytes is None:
            self._least_bytes = beside_bytes
        self._least_bytes = min(self._least_bytes, beside_bytes)
        has_grown = beside_bytes - self._least_bytes >= GROWTH_BYTES
        if (has_grown and since_ms >= TRIM_PERIOD_MS) or since_ms >= UNASKED_PERIOD_MS:
            self._trim()
            self._trimmed_ms = self._clock.monotonic_ms()
            self._least_bytes = self._measure() - held_bytes
