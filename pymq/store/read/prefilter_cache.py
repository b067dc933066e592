"""PrefilterCache: the units that a prefilter left, for the next group with the same expression, or another read.

While a store serves, the log behind its units never changes, so a result holds for the same units. They are compared by
a digest, which covers their physical offsets. A topic that is deleted and made again has other units.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from xxhash import xxh3_128_digest

from pymq.model.layout import UNIT_SIZE_BYTES

# Cached steps end at multiples of this number of units, so that reads from different offsets share them.
STEP_COUNT = 2048
PREFILTER_CACHE_COUNT_MAX = 4096  # steps: up to 8 million units
KEPT_COUNT_MAX = STEP_COUNT // 16  # a step that leaves more units is not cached: 256 bytes of numbers each
_OFFSET_BYTES = 8


class CachedStep(NamedTuple):
    """A prefilter has seen ``looked_count`` units with this digest, and left those with these numbers."""

    looked_count: int
    digest: bytes
    numbers: Sequence[int]


class PrefilterCache:
    """The steps used last, by prefilter and the physical offset of their first unit."""

    def __init__(self) -> None:
        self._steps: OrderedDict[tuple[object, bytes], CachedStep] = OrderedDict()

    def __len__(self) -> int:
        return len(self._steps)

    def find(self, prefilter: object, packed: bytes | bytearray, begin: int) -> CachedStep | None:
        """The step that begins with unit number ``begin``; None when it is not cached."""
        at = begin * UNIT_SIZE_BYTES
        key = prefilter, bytes(packed[at : at + _OFFSET_BYTES])
        found = self._steps.get(key)
        if found is None or xxh3_128_digest(packed[at : at + found.looked_count * UNIT_SIZE_BYTES]) != found.digest:
            return None
        self._steps.move_to_end(key)
        return found

    def note(self, prefilter: object, units: bytes | bytearray, numbers: Sequence[int]) -> None:
        """Cache that a prefilter left these numbers of the units."""
        if len(numbers) > KEPT_COUNT_MAX:
            return
        key = prefilter, bytes(units[:_OFFSET_BYTES])
        self._steps[key] = CachedStep(len(units) // UNIT_SIZE_BYTES, xxh3_128_digest(units), array("H", numbers))
        self._steps.move_to_end(key)
        if len(self._steps) > PREFILTER_CACHE_COUNT_MAX:
            self._steps.popitem(last=False)
