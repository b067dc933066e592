"""What prefilters left of units once, for the next group with the same expression, or one that reads again.

The log never changes under its units while a store serves (a cut ends it), so what was found for the same units holds:
they are compared by a digest, physical offsets included. A deleted topic that is made again has other units.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from xxhash import xxh3_128_digest

from pymq.model.layout import UNIT_SIZE_BYTES

# Remembered steps end at multiples of this many units, so that readers from different offsets meet.
STEP_COUNT = 2048
PREFILTER_CACHE_COUNT_MAX = 4096  # steps: up to 8 million units
KEPT_COUNT_MAX = STEP_COUNT // 16  # a step of which more are left is not remembered: 256 bytes of numbers each
_OFFSET_BYTES = 8


class PrefilterCache(NamedTuple):
    """Of so many units, the numbers of those that were left."""

    looked_count: int
    digest: bytes
    numbers: Sequence[int]


class Memory:
    """The steps used last, by prefilter and physical offset of their first unit."""

    def __init__(self) -> None:
        self._steps: OrderedDict[tuple[object, bytes], PrefilterCache] = OrderedDict()

    def __len__(self) -> int:
        return len(self._steps)

    def find(self, prefilter: object, packed: bytes | bytearray, begin: int) -> PrefilterCache | None:
        """What a prefilter left of the units from number ``begin`` on; None when it was not asked for these."""
        at = begin * UNIT_SIZE_BYTES
        key = prefilter, bytes(packed[at : at + _OFFSET_BYTES])
        found = self._steps.get(key)
        if found is None or xxh3_128_digest(packed[at : at + found.looked_count * UNIT_SIZE_BYTES]) != found.digest:
            return None
        self._steps.move_to_end(key)
        return found

    def note(self, prefilter: object, units: bytes | bytearray, numbers: Sequence[int]) -> None:
        """A prefilter left these of some units."""
        if len(numbers) > KEPT_COUNT_MAX:
            return
        key = prefilter, bytes(units[:_OFFSET_BYTES])
        self._steps[key] = PrefilterCache(len(units) // UNIT_SIZE_BYTES, xxh3_128_digest(units), array("H", numbers))
        self._steps.move_to_end(key)
        if len(self._steps) > PREFILTER_CACHE_COUNT_MAX:
            self._steps.popitem(last=False)
