"""EpochFile: a broker's epoch history and the file it is kept in (``config/epochHistory.json``).

Two logs that both claim an epoch are taken for equal as far as it goes. So a log may never hold bytes of an epoch
that it doesn't claim while it claims the one before it, whatever a crash leaves:

- A master saves its new epoch before it takes a write.
- A slave saves its master's epochs before it writes the first byte of each, and those alone that start within its log.
- What a crash takes from a log's end may leave an epoch that starts behind it: that is forgotten when the file is read.
- A log that follows a RocketMQ master holds bytes of nobody knows whom: it claims nothing any more.
"""

from __future__ import annotations

import logging
import random
from typing import Any

import msgspec

from pymq.broker.replication.epoch_history import EpochEntry, EpochHistory
from pymq.errors import StoreError
from pymq.store.disk.json_table import JsonTable
from pymq.store.replica.epoch_table import ENTRIES, EPOCH_HISTORY_FILE

log = logging.getLogger(__name__)

_ENDED_AT = "endedAt"  # the log's end at the last orderly stop


class EpochFile:
    """``epoch_history``: what this broker's log claims. Every change is on the disk when a method returns.

    All methods that save raise StoreUnavailableError when the disk fails; then nothing has changed.
    """

    def __init__(self, table: JsonTable, rng: random.Random) -> None:
        self._table = table
        self._rng = rng
        self.history = EpochHistory()
        self._ended_at: int | None = None
        self._coming: tuple[EpochEntry, ...] = ()  # of our master, starting behind our log's end

    def load(self, log_end: int) -> None:
        """Reads what was saved, for a log that ends at ``log_end``. Raises StoreError for a file that can't be used."""
        table = self._table.load()
        try:
            entries = msgspec.convert(table.get(ENTRIES, []), tuple[EpochEntry, ...])
            self._ended_at = msgspec.convert(table.get(_ENDED_AT), int | None)
        except msgspec.ValidationError as error:
            raise StoreError(f"config/{EPOCH_HISTORY_FILE}: {error}; without the file the log is compared") from error
        self.history = EpochHistory(entries).truncate(log_end)
        self._coming = ()

    def is_as_left(self, log_end: int, *, was_clean: bool) -> bool:
        """Whether a log that ends at ``log_end`` is as the last orderly stop left it."""
        return was_clean and self._ended_at == log_end

    def open_as_master(self, log_end: int, *, was_clean: bool, begins_epoch: bool) -> None:
        """Begins an epoch if there is a reason to; before the first write.

        The reasons: the broker became master, it never was one, its last stop was unclean, or somebody else wrote to
        the log, or cut it, since then.
        """
        if self.history.entries and self.is_as_left(log_end, was_clean=was_clean) and not begins_epoch:
            return
        epoch_id = f"{self._rng.getrandbits(64):016x}"
        epoch_history = (self.history.begin if begins_epoch else self.history.renew)(log_end, epoch_id)
        self._save(epoch_history, None)
        log.info("an epoch of epoch %d begins at offset %d of the log", epoch_history.epoch, log_end)

    def follow(self, theirs: EpochHistory, log_end: int) -> None:
        """From now on bytes of the master with epoch history ``theirs`` are appended, whose log is ours up to ``log_end``."""
        self._save(theirs.truncate(log_end), None)
        self._coming = tuple(entry for entry in theirs.entries if entry.start > log_end)

    @property
    def next_start(self) -> int | None:
        """The offset that must not be written before :meth:`reach` was called; None: go on."""
        return self._coming[0].start if self._coming else None

    def reach(self, log_end: int) -> None:
        """The log goes to ``log_end``: epochs that start up to there are claimed."""
        reached = tuple(entry for entry in self._coming if entry.start <= log_end)
        if reached:
            self._save(EpochHistory(self.history.entries + reached), None)
            self._coming = self._coming[len(reached) :]

    def close(self, log_end: int) -> None:
        """The store was closed in order, and the log ends at ``log_end``."""
        self._save(self.history, log_end)

    def _save(self, epoch_history: EpochHistory, ended_at: int | None) -> None:
        table: dict[str, Any] = {ENTRIES: msgspec.to_builtins(epoch_history.entries)}
        if ended_at is not None:
            table[_ENDED_AT] = ended_at
        self._table.save(table)
        self.history, self._ended_at = epoch_history, ended_at
