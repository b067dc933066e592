"""What code outside the store uses of a queue: QueueView, a part of ConsumeQueue, and the tags codes of its units."""

from __future__ import annotations

from typing import Protocol

from pymq.model.layout import UNIT


def tags_codes(units: bytes) -> list[int]:
    """The tags codes of packed units."""
    return [code for _, _, code in UNIT.iter_unpack(units)]


class QueueView(Protocol):
    """The part of a :class:`ConsumeQueue` that code outside the store uses."""

    @property
    def topic(self) -> str: ...

    @property
    def queue_id(self) -> int: ...

    @property
    def min_offset(self) -> int:
        """The first readable offset."""
        ...

    @property
    def max_offset(self) -> int:
        """The offset after the newest message that consumers may see."""
        ...

    @property
    def next_offset(self) -> int:
        """The next message's offset. Unconfirmed messages lie below it, too."""
        ...

    @property
    def last_physical_offset(self) -> int:
        """Where the record of the newest message that consumers may see begins in the log; -1 when there is none."""
        ...

    def listed(self, units: bytes) -> bytes:
        """Units of this queue as one of 20 bytes for each message, which :func:`tags_codes` reads."""
        ...

    def unit(self, offset: int) -> tuple[int, int, int]:
        """See :meth:`ConsumeQueue.unit`."""
        ...

    def physical_offset_from(self, offset: int) -> int:
        """See :meth:`ConsumeQueue.physical_offset_from`."""
        ...

    def count_from(self, physical_offset: int) -> int:
        """See :meth:`ConsumeQueue.count_from`."""
        ...
