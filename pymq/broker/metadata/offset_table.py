"""OffsetTable: committed offsets by (topic, group) and queue, with indexes by group and by topic."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

import msgspec

from pymq.broker.metadata.table_reading import read_numbers
from pymq.model.lite_topics import is_light_queue, split_group_key
from pymq.model.tables import DataVersion

_SEPARATOR = "@"
_COPIED_AT_ONCE = 5000  # offsets that are copied before the next rest

Offsets = dict[tuple[str, str], dict[int, int]]


class OffsetTable:
    """The content of ``consumerOffset.json``. ``count`` is the number of queues of all groups.

    The indexes leave light queues out, of which there may be a million: ``light_count`` is the number of their keys.
    Only the methods change it. It belongs to one thread; another one may call :meth:`snapshot`.
    """

    __slots__ = ("_groups", "_topics", "by_key", "count", "light_count")

    def __init__(self) -> None:
        self.by_key: Offsets = {}
        self.count = 0
        self.light_count = 0
        self._topics: dict[str, set[str]] = {}  # by group
        self._groups: dict[str, set[str]] = {}  # by topic

    def set(self, topic: str, group: str, queue_id: int, offset: int) -> bool:
        """Set one offset; return False when it is so already."""
        queues = self.by_key.get((topic, group))
        if queues is None:
            queues = {}
            self._add((topic, group), queues)
        before = queues.get(queue_id)
        if before == offset:
            return False
        queues[queue_id] = offset
        if before is None:
            self.count += 1
        return True

    def update(self, entries: Offsets) -> None:
        """Replace the entries of these keys; others stay. The inner maps are kept, not copied."""
        for key, queues in entries.items():
            self.remove(key)
            self._add(key, queues)

    def clear(self) -> None:
        """Drop all offsets."""
        self.by_key.clear()
        self._topics.clear()
        self._groups.clear()
        self.count = self.light_count = 0

    def remove(self, key: tuple[str, str]) -> bool:
        """Drop a group's offsets in a topic; return False when there are none."""
        queues = self.by_key.pop(key, None)
        if queues is None:
            return False
        self.count -= len(queues)
        topic, group = key
        if is_light_queue(topic):
            self.light_count -= 1
            return True
        _discard(self._topics, group, topic)
        _discard(self._groups, topic, group)
        return True

    def remove_queue(self, topic: str, queue_id: int) -> bool:
        """Drop all groups' offsets in one queue; return False when there are none."""
        removed = 0
        for group in self._groups.get(topic, ()):
            removed += self.by_key[topic, group].pop(queue_id, None) is not None
        self.count -= removed
        return removed > 0

    def topics_of(self, group: str) -> list[str]:
        """Return the topics in which the group has offsets, sorted."""
        return sorted(self._topics.get(group, ()))

    def light_keys(self) -> list[tuple[str, str]]:
        """Return (light queue's name, group) of all offsets in light queues."""
        return [key for key in self.by_key if is_light_queue(key[0])] if self.light_count else []

    def groups_of(self, topic: str) -> list[str]:
        """Return the groups that have offsets in the topic, sorted."""
        return sorted(self._groups.get(topic, ()))

    def groups(self) -> list[str]:
        """Return every group with an offset, sorted."""
        return sorted(self._topics)

    def known_groups(self) -> frozenset[str]:
        """Return :meth:`groups` in no order."""
        return frozenset(self._topics)

    def snapshot(self) -> Offsets:
        """Return a copy of all offsets. In another thread than the table's, it holds changes that come meanwhile or
        not, each one whole: the keys are copied at once, then each key's queues at once."""
        steps = self.copy_in_steps()
        while True:
            try:
                next(steps)
            except StopIteration as stop:
                copy: Offsets = stop.value
                return copy

    def copy_in_steps(self) -> Generator[None, None, Offsets]:
        """Return a copy of all offsets. Yields now and then, and holds changes that come meanwhile or not."""
        found: Offsets = {}
        copied = 0
        for key in list(self.by_key):
            queues = self.by_key.get(key)
            if queues is not None:
                found[key] = queues.copy()
                copied += 1 + len(queues)
            if copied >= _COPIED_AT_ONCE:
                copied = 0
                yield
        return found

    def _add(self, key: tuple[str, str], queues: dict[int, int]) -> None:
        topic, group = key
        self.by_key[key] = queues
        self.count += len(queues)
        if is_light_queue(topic):
            self.light_count += 1
            return
        self._topics.setdefault(group, set()).add(topic)
        self._groups.setdefault(topic, set()).add(group)


def read_offsets(table: Any) -> Offsets:
    """Return by (topic, group) what a saved ``offsetTable`` holds by ``topic@group``."""
    offsets = {}
    known: dict[str, str] = {}  # each name once: 50 groups of 1,000 topics have 100,000 of them
    for key, queues in (table or {}).items():
        topic, group = split_group_key(key)
        if topic and group and _SEPARATOR not in group:
            topic, group = known.setdefault(topic, topic), known.setdefault(group, group)
            offsets[topic, group] = {q: at for q, at in read_numbers(queues).items() if q >= 0 and at >= 0}
    return offsets


def as_offset_table(offsets: Mapping[tuple[str, str], dict[int, int]]) -> dict[str, dict[int, int]]:
    """Return the reverse of :func:`read_offsets`. Encode it before the next change: it shares the maps of queues."""
    return {f"{topic}{_SEPARATOR}{group}": queues for (topic, group), queues in offsets.items()}


def as_table(offsets: Mapping[tuple[str, str], dict[int, int]], version: DataVersion) -> dict[str, Any]:
    """Return a copy of :func:`as_saved_table`, with queue ids as text like in JSON."""
    table = as_saved_table(offsets, version)
    table["offsetTable"] = {
        key: {str(queue_id): offset for queue_id, offset in queues.items()}
        for key, queues in table["offsetTable"].items()
    }
    return table


def as_saved_table(offsets: Mapping[tuple[str, str], dict[int, int]], version: DataVersion) -> dict[str, Any]:
    """Return the object that ``consumerOffset.json`` holds: the offsets and the derived ``groupTopicMap``."""
    saved = as_offset_table(offsets)
    return {"dataVersion": msgspec.to_builtins(version), **group_topics(saved), "offsetTable": saved}


def group_topics(offset_table: Mapping[str, object]) -> dict[str, dict[str, list[str]]]:
    """Return the derived member ``groupTopicMap`` of a saved ``offsetTable``."""
    groups: dict[str, list[str]] = {}
    for key in offset_table:
        topic, group = split_group_key(key)
        groups.setdefault(group, []).append(topic)
    return {"groupTopicMap": groups}


def _discard(index: dict[str, set[str]], name: str, member: str) -> None:
    members = index[name]
    members.discard(member)
    if not members:
        del index[name]
