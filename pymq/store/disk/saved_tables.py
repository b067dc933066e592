"""SavedTables: which tables of ``config/`` were ever saved, so that a start knows when one of them is gone.

A missing table looks like one that was never written: offsets would begin at 0 and topics be unknown, without a word.
The list stands outside of ``config/``, in ``savedTables.json``. A directory of RocketMQ has none until PyMQ saves.
"""

from __future__ import annotations

import logging
from threading import Lock

from pymq.errors import StoreError, StoreUnavailableError
from pymq.store.disk.fs import Files
from pymq.store.disk.json_table import JsonTable

log = logging.getLogger(__name__)

SAVED_TABLES_FILE = "savedTables.json"
_MEMBER = "tables"
# What a start without the table would do in silence.
CONSEQUENCES = {
    "topics.json": "topics are unknown until they are created again",
    "subscriptionGroup.json": "groups have the default settings",
    "consumerOffset.json": "every group reads all messages again, or none of those that wait",
    "delayOffset.json": "delayed messages that were delivered are delivered again",
    "messageRequestMode.json": "groups that pop may pull",
    "consumerOrderInfo.json": "messages of ordered groups may be handed out twice",
    "deletedTopics.json": "topics that are created again begin with old messages",
    "madeByUsers.json": "users lose topics and groups that they made by use",
    "auth.json": "users and rules are gone",
}
_lock = Lock()  # one list is changed at a time: tables are saved in worker threads


class SavedTables:
    """The list of the broker directory ``root``. Only tables of :data:`CONSEQUENCES` are listed."""

    def __init__(self, files: Files, root: str) -> None:
        self._files = files
        self._root = root
        self._known: set[str] = set()

    def names(self) -> set[str]:
        """Return the listed names; none when the list can't be used, which is logged."""
        try:
            found = self._table().load().get(_MEMBER, [])
        except StoreError as error:
            log.warning("the list of saved tables begins again: %s", error)
            return set()
        return {name for name in found if isinstance(name, str)} if isinstance(found, list) else set()

    def note(self, name: str) -> None:
        """List a table that is on the disk. Where the disk takes no writes, a later save of the table does it."""
        if name in self._known or name not in CONSEQUENCES:
            return
        with _lock:
            names = self.names()
            try:
                if name not in names:
                    self._table().save({_MEMBER: sorted(names | {name})})
            except StoreUnavailableError:
                return
        self._known.add(name)

    def check_missing(self, name: str) -> None:
        """Raise StoreError for a missing table that is listed."""
        if name in self.names():
            raise StoreError(
                f"{self._root}/config/{name} is gone, although it was saved; without it {CONSEQUENCES[name]}: put back "
                f"a copy, or run `pymq store accept-loss {self._root}` to start without it"
            )

    def missing(self) -> list[str]:
        """Return listed tables that are not there, with or without a backup."""
        return sorted(name for name in self.names() if not self._files.exists(f"{self._root}/config/{name}"))

    def forget(self, names: list[str]) -> None:
        """Take names off the list, so that a start goes on without these tables. Raises StoreUnavailableError."""
        with _lock:
            self._table().save({_MEMBER: sorted(self.names() - set(names))})

    def _table(self) -> JsonTable:
        return JsonTable(self._files, f"{self._root}/{SAVED_TABLES_FILE}")
