"""What an export keeps of its queues in a table: how far each is, and how it is recognized.

The commits of a Delta table name the queues that they change, and now and then one names all, so that a reader goes
back no further than that. An Iceberg table keeps all in a property, which a commit changes together with the files.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pymq.spark.planning.identity import Mark
from pymq.spark.planning.ranges import QueueKey

FULL_EVERY: Final = 20


@dataclass(slots=True)
class TableState:
    """``number`` is that of the last commit, 0 before the first."""

    number: int = 0
    positions: dict[QueueKey, int] = field(default_factory=dict)
    marks: dict[QueueKey, Mark] = field(default_factory=dict)

    def after(self, parts: Sequence[dict[str, Any]], marks: Sequence[Mark]) -> TableState:
        """Return the state after a commit of ranges."""
        positions = dict(self.positions)
        for part in parts:
            key = part["topic"], part["broker_name"], part["queue_id"]
            positions[key] = max(positions.get(key, 0), part["to_offset"])
        return TableState(self.number + 1, positions, {**self.marks, **{mark.key: mark for mark in marks}})

    def text(self, since: TableState | None = None) -> str:
        """Return a text with all queues, or with those alone that differ from a state before."""
        keys = sorted(self.positions.keys() | self.marks.keys())
        if since is not None:
            keys = [key for key in keys if self._of(key) != since._of(key)]
        queues = [[*key, *self._entry(key)] for key in keys]
        fields = {"number": self.number, "full": since is None, "queues": queues}
        return json.dumps(fields, separators=(",", ":"))

    def _of(self, key: QueueKey) -> tuple[int | None, Mark | None]:
        return self.positions.get(key), self.marks.get(key)

    def _entry(self, key: QueueKey) -> Sequence[Any]:
        position, mark = self._of(key)
        known = () if mark is None else (mark.offset, mark.digest, mark.deleted_below)
        return (position or 0, *known)


def read_state(texts: Iterable[str]) -> TableState | None:
    """Return the state from the texts of commits, the newest first; None if no text among them is a full one."""
    found: list[dict[str, Any]] = []
    for text in texts:
        found.append(json.loads(text))
        if found[-1]["full"]:
            break
    else:
        return None
    state = TableState(found[0]["number"])
    for entry in reversed(found):
        _apply(state, entry["queues"])
    return state


def _apply(state: TableState, queues: Sequence[Sequence[Any]]) -> None:
    for topic, broker_name, queue_id, position, *known in queues:
        key = topic, broker_name, queue_id
        state.positions[key] = position
        if known:
            offset, digest, deleted_below = known
            state.marks[key] = Mark(topic, broker_name, queue_id, offset, digest, deleted_below)
