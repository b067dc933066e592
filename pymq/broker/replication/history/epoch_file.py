"""EpochFile: a broker's epoch history and the file it is kept in (``config/epochHistory.json``).

Two logs whose histories share an epoch are taken for equal up to the end of that epoch. So, after any crash, a log
must not contain bytes of an epoch that its history lacks while the history has the epoch before:

- A master saves its new epoch before it takes a write.
- A slave saves an epoch of its master before it writes the first byte of it, and none that starts after its log's end.
- A crash may take bytes from a log's end, and leave an epoch that starts after it. Loading the file drops that epoch.
- A log that follows a RocketMQ master has bytes of unknown origin. Its history becomes empty.
"""

from __future__ import annotations

import logging
import random
from typing import Any

import msgspec

from pymq.broker.replication.history.epoch_history import EpochEntry, EpochHistory
from pymq.errors import StoreError
from pymq.store.disk.json_table import JsonTable
from pymq.store.replica.epoch_table import ENDED_AT, ENTRIES, EPOCH_HISTORY_FILE

log = logging.getLogger(__name__)


class EpochFile:
    """Keeps ``history``, the epoch history of this broker's log. A change is on the disk when its method returns.

    The methods that save raise StoreUnavailableError when the disk fails; then nothing has changed.
    """

    def __init__(self, table: JsonTable, rng: random.Random) -> None:
        self._table = table
        self._rng = rng
        self.history = EpochHistory()
        self._ended_at: int | None = None
        self._coming: tuple[EpochEntry, ...] = ()  # the master's epochs that start after our log's end

    def load(self, log_end: int) -> None:
        """Read the file, for a log that ends at ``log_end``. Raises StoreError for a file that can't be used."""
        table = self._table.load()
        try:
            entries = msgspec.convert(table.get(ENTRIES, []), tuple[EpochEntry, ...])
            self._ended_at = msgspec.convert(table.get(ENDED_AT), int | None)
        except msgspec.ValidationError as error:
            raise StoreError(
                f"config/{EPOCH_HISTORY_FILE}: {error}; without it the master compares the bytes of the logs"
            ) from error
        self.history = EpochHistory(entries).truncate(log_end)
        self._coming = ()

    def is_as_left(self, log_end: int, *, was_clean: bool) -> bool:
        """Return True when a log that ends at ``log_end`` is as the last orderly stop left it."""
        return was_clean and self._ended_at == log_end

    def open_as_master(self, log_end: int, *, was_clean: bool, begins_epoch: bool) -> None:
        """Begin a new epoch if one is needed. Call it before the first write.

        It is needed when the broker becomes the master, when it never was one, when its last stop was unclean, or when
        another program has changed the log since then.
        """
        if self.history.entries and self.is_as_left(log_end, was_clean=was_clean) and not begins_epoch:
            return
        epoch_id = f"{self._rng.getrandbits(64):016x}"
        history = (self.history.begin if begins_epoch else self.history.renew)(log_end, epoch_id)
        self._save(history, None)
        log.info("epoch %d: a new entry begins at offset %d of the log", history.epoch, log_end)

    def follow(self, theirs: EpochHistory, log_end: int) -> None:
        """Prepare to append bytes of a master with the history ``theirs``, whose log equals ours up to ``log_end``."""
        self._save(theirs.truncate(log_end), None)
        self._coming = tuple(entry for entry in theirs.entries if entry.start > log_end)

    @property
    def next_start(self) -> int | None:
        """The offset that may only be written after a call of :meth:`reach`; None when there is no such offset."""
        return self._coming[0].start if self._coming else None

    def reach(self, log_end: int) -> None:
        """Add the master's epochs that start at or before ``log_end``, the log's end now."""
        reached = tuple(entry for entry in self._coming if entry.start <= log_end)
        if reached:
            self._save(EpochHistory(self.history.entries + reached), None)
            self._coming = self._coming[len(reached) :]

    def close(self, log_end: int) -> None:
        """Note that the store was closed in order, with a log that ends at ``log_end``."""
        self._save(self.history, log_end)

    def _save(self, history: EpochHistory, ended_at: int | None) -> None:
        table: dict[str, Any] = {ENTRIES: msgspec.to_builtins(history.entries)}
        if ended_at is not None:
            table[ENDED_AT] = ended_at
        self._table.save(table)
        self.history, self._ended_at = history, ended_at
