"""LiteOffsets: where a group goes on in a lite topic.

Offsets of expired lite topics are deleted. A broker may know such a lite topic again: a slave that becomes the master,
or one that lost its newest table of names. So each group has a *read mark* for its parent: what has no offset, and was
stored below this physical offset of the log, was read before it expired. It is saved and copied with the offsets, under
a name that no lite topic has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pymq.model.lite_topics import light_queue_name, read_mark_name

if TYPE_CHECKING:
    from pymq.broker.metadata.cursors import CursorManager
    from pymq.store.store import LightReader


class LiteOffsets:
    """Groups' offsets in light queues, which have one queue each."""

    def __init__(self, cursors: CursorManager, lights: LightReader) -> None:
        self._cursors = cursors
        self._lights = lights

    def committed(self, group: str, parent: str, lite: str) -> int:
        """Return the group's offset; -1 without one."""
        return self._cursors.query(group, light_queue_name(parent, lite), 0)

    def start(self, group: str, parent: str, lite: str) -> int:
        """Return the offset of the first message that the group has not acknowledged. Raises StoreError, OSError."""
        committed = self.committed(group, parent, lite)
        if committed >= 0:
            return committed
        mark = self._cursors.query(group, read_mark_name(parent), 0)
        return self._lights.offset_from(parent, lite, mark) if mark > 0 else 0

    def has_news(self, group: str, parent: str, lite: str) -> bool:
        """Return True when a lite topic has messages that the group has not acknowledged.

        Raises StoreError, OSError.
        """
        if not self._lights.has(parent, lite):
            return False
        return self._lights.max_offset(parent, lite) > self.start(group, parent, lite)

    def begin_at(self, group: str, parent: str, lite: str, offset: int) -> None:
        """Give a group its first offset in a lite topic. Raises Refusal at the limit of offsets."""
        self._cursors.check_room()
        self._cursors.hand_out(group, light_queue_name(parent, lite), 0, offset)

    def has_mark(self, group: str, parent: str) -> bool:
        """Return True for a group with a read mark, be it at the log's begin."""
        return self._cursors.query(group, read_mark_name(parent), 0) >= 0

    def move_mark(self, group: str, parent: str, physical_offset: int) -> None:
        """Take note that what was stored below this, and has no offset, was read. Raises Refusal at the limit."""
        name = read_mark_name(parent)
        before = self._cursors.query(group, name, 0)
        if before < 0:
            self._cursors.check_room()
        if physical_offset > before:
            self._cursors.hand_out(group, name, 0, physical_offset)
