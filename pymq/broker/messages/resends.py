"""Resends: finds the first copy of a message that its producer sends again, so that it is not stored twice.

It asks the key index and the unconfirmed commits, which are made from the log: so a new leader of a Raft group knows
what the one before stored. A send without the mark costs nothing.
"""

from __future__ import annotations

from pymq.clock import Clock
from pymq.errors import PymqError
from pymq.model.properties import RESEND, find_property
from pymq.model.record import StoredMessage, decode_record
from pymq.store.store import MessageStore

RESEND_WINDOW_MS = 10 * 60 * 1000  # how old a first copy may be, by its store time
RESEND_RECORDS_MAX = 8  # records with one unique key that are looked at, the newest ones
_INDEX_STEP_MS = 1000  # the index knows times in seconds; the record has it to the millisecond
_MARK = f"{RESEND}\x01".encode()


class Resends:
    """Knows the recent messages of one store by their unique keys."""

    def __init__(self, store: MessageStore, clock: Clock, *, is_on: bool) -> None:
        """``is_on``: False for a broker that stores every resend again, as RocketMQ does."""
        self._store = store
        self._clock = clock
        self._is_on = is_on

    def first_of(self, topic: str, properties: bytes, unique_key: str) -> StoredMessage | None:
        """Return the copy that is stored already; None when the message must be stored.

        It is None without the mark, behind the window, and when the index can't say: twice is better than never.
        """
        if not self._is_on or _MARK not in properties or find_property(properties, RESEND.encode()) is None:
            return None
        begin_ms = self._clock.now_ms() - RESEND_WINDOW_MS
        try:
            found = [decode_record(record) for record in self._records(topic, unique_key, begin_ms)]
        except PymqError:
            return None
        own = unique_key.encode()
        copies = [
            each
            for each in found
            if each.store_timestamp_ms >= begin_ms and find_property(each.raw_properties, b"UNIQ_KEY") == own
        ]
        return copies[-1] if copies else None

    def _records(self, topic: str, unique_key: str, begin_ms: int) -> list[memoryview]:
        """Return records that may have the unique key, newest first."""
        store = self._store
        at = store.find_unconfirmed(topic, unique_key.encode())
        unconfirmed = [] if at is None else [store.record_at(at)]
        return unconfirmed + store.find_by_key(topic, unique_key, RESEND_RECORDS_MAX, begin_ms - _INDEX_STEP_MS)
