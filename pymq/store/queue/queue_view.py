"""QueueView: the part of a ConsumeQueue that code outside the store uses."""

from __future__ import annotations

from typing import Protocol


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

    def unit(self, offset: int) -> tuple[int, int, int]:
        """See :meth:`ConsumeQueue.unit`."""
        ...

    def physical_offset_from(self, offset: int) -> int:
        """See :meth:`ConsumeQueue.physical_offset_from`."""
        ...

    def count_from(self, physical_offset: int) -> int:
        """See :meth:`ConsumeQueue.count_from`."""
        ...
