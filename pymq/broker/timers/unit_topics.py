"""UnitTopics: the topic of a timer message by the unit in the timer log, which has the topic's hash alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pymq.broker.timers.open_slot import DueMessage
from pymq.errors import CorruptRecordError, NotFoundError
from pymq.model.javahash import tags_code
from pymq.model.properties import REAL_TOPIC
from pymq.model.record import MalformedRecordError, decode_record
from pymq.store.timer.timer_store import TimerUnit

if TYPE_CHECKING:
    from pymq.store.store import MessageStore


class UnitTopics:
    """Knows the topics by their hash; of topics that share one, a message's record says which it is."""

    def __init__(self, topics: Iterable[str], store: MessageStore) -> None:
        self._store = store
        self._names: dict[int, list[str]] = {}
        for name in topics:
            self._names.setdefault(tags_code(name), []).append(name)

    def topic_of(self, unit: TimerUnit | DueMessage) -> str:
        """Return the topic; empty for one that is not here or was deleted since. Raises UnreadableError."""
        names = self._names.get(unit.topic_hash, [])
        name = names[0] if len(names) == 1 else self._in_record(unit) if names else ""
        return "" if self._store.deletions.covers(name, unit.physical_offset) else name

    def _in_record(self, unit: TimerUnit | DueMessage) -> str:
        try:
            return decode_record(self._store.record_at(unit.physical_offset)).properties.get(REAL_TOPIC, "")
        except (NotFoundError, CorruptRecordError, MalformedRecordError):
            return ""
