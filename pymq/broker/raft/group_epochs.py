"""GroupEpochFile: the epoch history of a Raft group's log, in the file where a plain group has its own.

A broker that leaves Raft mode finds there what it needs as a master or slave. The terms of the group are the epochs,
and every member gives an epoch the same id, made from the founding id. So the histories of all members agree.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from xxhash import xxh3_64_hexdigest

from pymq.broker.replication.history.epoch_file import EpochFile
from pymq.broker.replication.history.epoch_history import ENTRIES_MAX, EpochEntry, EpochHistory
from pymq.raft.log_view import LogView
from pymq.raft.state import Epoch
from pymq.store.disk.json_table import JsonTable


def group_history(before: EpochHistory, view: LogView, founded: str) -> EpochHistory:
    """Return the history of the log of ``view``, whose plain group had the history ``before``.

    ``founded`` is the founding id, in hex.
    """
    founded_epoch = view.position(view.memberships[0].end).epoch
    of_group = [epoch for epoch in view.epochs if epoch.number > founded_epoch]
    if not of_group:
        return before
    first = of_group[0]
    kept = [entry for entry in before.entries if entry.epoch < first.number and entry.start <= first.start]
    new = [EpochEntry(epoch.number, epoch.start, _id(founded, epoch)) for epoch in of_group]
    entries = (*kept, *new)
    return EpochHistory((*entries[:1], *entries[1:][-(ENTRIES_MAX - 1) :]))


def _id(founded: str, epoch: Epoch) -> str:
    return xxh3_64_hexdigest(f"{founded} {epoch.number}@{epoch.start}".encode())


class GroupEpochFile(EpochFile):
    """An :class:`EpochFile` whose epochs the group's elections begin."""

    def __init__(
        self, table: JsonTable, rng: random.Random, history_of: Callable[[EpochHistory], EpochHistory]
    ) -> None:
        """``history_of`` returns the group's history for the one in the file."""
        super().__init__(table, rng)
        self._history_of = history_of

    def open_as_master(self, log_end: int, *, was_clean: bool, begins_epoch: bool) -> None:
        self._save(self._history_of(self.history), None)

    def close(self, log_end: int) -> None:
        self._save(self._history_of(self.history).truncate(log_end), log_end)
