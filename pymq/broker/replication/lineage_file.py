"""LineageKeeper: a broker's lineage and the file it is kept in (``config/lineage.json``).

Two logs that both claim a reign are taken for equal as far as it goes. So a log may never hold bytes of a reign
that it doesn't claim while it claims the one before it, whatever a crash leaves:

- A master saves its new reign before it takes a write.
- A slave saves its master's reigns before it writes the first byte of each, and those alone that start within its log.
- What a crash takes from a log's end may leave a reign that starts behind it: that is forgotten when the file is read.
- A log that follows a RocketMQ master holds bytes of nobody knows whom: it claims nothing any more.
"""

from __future__ import annotations

import logging
import random
from typing import Any

import msgspec

from pymq.broker.replication.lineage import Lineage, Reign
from pymq.errors import StoreError
from pymq.store.tables import JsonTable

log = logging.getLogger(__name__)

LINEAGE_FILE = "lineage"
_REIGNS = "reigns"
_ENDED_AT = "endedAt"  # the log's end at the last orderly stop


class LineageKeeper:
    """``lineage``: what this broker's log claims. Every change is on the disk when a method returns.

    All methods that save raise StoreUnavailableError when the disk fails; then nothing has changed.
    """

    def __init__(self, table: JsonTable, rng: random.Random) -> None:
        self._table = table
        self._rng = rng
        self.lineage = Lineage()
        self._ended_at: int | None = None
        self._coming: tuple[Reign, ...] = ()  # of our master, starting behind our log's end

    def load(self, log_end: int) -> None:
        """Reads what was saved, for a log that ends at ``log_end``. Raises StoreError for a file that can't be used."""
        table = self._table.load()
        try:
            reigns = msgspec.convert(table.get(_REIGNS, []), tuple[Reign, ...])
            self._ended_at = msgspec.convert(table.get(_ENDED_AT), int | None)
        except msgspec.ValidationError as error:
            raise StoreError(f"config/{LINEAGE_FILE}.json: {error}; without the file the log is compared") from error
        self.lineage = Lineage(reigns).cut(log_end)
        self._coming = ()

    def is_as_left(self, log_end: int, *, was_clean: bool) -> bool:
        """Whether a log that ends at ``log_end`` is as the last orderly stop left it."""
        return was_clean and self._ended_at == log_end

    def open_as_master(self, log_end: int, *, was_clean: bool, begins_reign: bool) -> None:
        """Begins a reign if there is a reason to; before the first write.

        The reasons: the broker became master, it never was one, its last stop was unclean, or somebody else wrote to
        the log, or cut it, since then.
        """
        if self.lineage.reigns and self.is_as_left(log_end, was_clean=was_clean) and not begins_reign:
            return
        reign_id = f"{self._rng.getrandbits(64):016x}"
        lineage = (self.lineage.begin if begins_reign else self.lineage.renew)(log_end, reign_id)
        self._save(lineage, None)
        log.info("a reign of epoch %d begins at offset %d of the log", lineage.epoch, log_end)

    def follow(self, theirs: Lineage, log_end: int) -> None:
        """From now on bytes of the master with lineage ``theirs`` are appended, whose log is ours up to ``log_end``."""
        self._save(theirs.cut(log_end), None)
        self._coming = tuple(reign for reign in theirs.reigns if reign.start > log_end)

    @property
    def next_start(self) -> int | None:
        """The offset that must not be written before :meth:`reach` was called; None: go on."""
        return self._coming[0].start if self._coming else None

    def reach(self, log_end: int) -> None:
        """The log goes to ``log_end``: reigns that start up to there are claimed."""
        reached = tuple(reign for reign in self._coming if reign.start <= log_end)
        if reached:
            self._save(Lineage(self.lineage.reigns + reached), None)
            self._coming = self._coming[len(reached) :]

    def close(self, log_end: int) -> None:
        """The store was closed in order, and the log ends at ``log_end``."""
        self._save(self.lineage, log_end)

    def _save(self, lineage: Lineage, ended_at: int | None) -> None:
        table: dict[str, Any] = {_REIGNS: msgspec.to_builtins(lineage.reigns)}
        if ended_at is not None:
            table[_ENDED_AT] = ended_at
        self._table.save(table)
        self.lineage, self._ended_at = lineage, ended_at
