"""KeptHalves: the newest half messages in memory, so that their end need not read them from the log.

What is not kept is read, so nothing depends on it but the time.
"""

from __future__ import annotations

from collections import OrderedDict

import msgspec

from pymq.broker.transactions.open_halves import OpenHalf
from pymq.model.draft import Draft

KEPT_SIZE_MAX_BYTES = 16 * 1024 * 1024
_OVERHEAD_BYTES = 1024  # of one, beside its body and properties


class KeptHalf(msgspec.Struct, gc=False):
    """What is stored again at the commit of an open transaction, and who may end it.

    ``half.topic`` and ``queue_id`` are its target. ``draft``: what was staged as the half message.
    """

    half: OpenHalf
    group: str
    queue_id: int
    draft: Draft


class KeptHalves:
    """By physical offset. The oldest ones make room for new ones."""

    def __init__(self) -> None:
        self._kept: OrderedDict[int, KeptHalf] = OrderedDict()
        self.size_bytes = 0
        # Returns the half message at a physical offset, None when it is not kept.
        self.get = self._kept.get

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, kept: KeptHalf) -> None:
        """Keep a half message that was staged."""
        self._kept[kept.half.physical_offset] = kept
        self.size_bytes += _size_bytes(kept)
        while self.size_bytes > KEPT_SIZE_MAX_BYTES:
            _, oldest = self._kept.popitem(last=False)
            self.size_bytes -= _size_bytes(oldest)

    def drop(self, physical_offset: int) -> None:
        """Forget one, if it is kept."""
        kept = self._kept.pop(physical_offset, None)
        if kept is not None:
            self.size_bytes -= _size_bytes(kept)

    def clear(self) -> None:
        """Forget all of them."""
        self._kept.clear()
        self.size_bytes = 0


def _size_bytes(kept: KeptHalf) -> int:
    return len(kept.draft.body) + len(kept.draft.properties) + _OVERHEAD_BYTES
