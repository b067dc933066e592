"""BulkWork: numpy, loaded when there is something to do with it, while the broker goes on serving."""

from __future__ import annotations

import importlib
import logging

from pymq.broker.upkeep.flusher import Result, RunInThread
from pymq.store.store import MessageStore

log = logging.getLogger(__name__)

BULK_MODULES = ("pymq.store.write.uniform_batch", "pymq.store.dispatch.bulk_dispatch")  # they bring numpy


class BulkWork:
    """Tells one store after the other whether its bulk ways may be taken. An idle broker does without numpy."""

    def __init__(self, run_in_thread: RunInThread) -> None:
        self._run_in_thread = run_in_thread
        self._store: MessageStore | None = None
        self._idle_end = 0
        self._is_asked = False
        self._is_loaded = False

    def prepare(self, store: MessageStore, *, is_awaited: bool) -> None:
        """``store`` has just been opened. ``is_awaited``: much is about to come; else the first message decides."""
        self._store = store
        self._idle_end = store.physical_max_offset
        store.set_bulk_ready(self._is_loaded)
        if is_awaited:
            self._load()

    def tick(self) -> None:
        """Now and then: looks whether messages have come."""
        if self._store is not None and self._store.physical_max_offset != self._idle_end:
            self._load()

    def _load(self) -> None:
        """Once."""
        if not self._is_asked:
            self._is_asked = True
            self._run_in_thread(_import_bulk_modules, self._loaded)

    def _loaded(self, outcome: Result) -> None:
        try:
            outcome.result()
        except ImportError as error:
            log.warning("bulk work goes the plain way, which takes longer: numpy can't be loaded: %s", error)
            return
        self._is_loaded = True
        if self._store is not None:
            self._store.set_bulk_ready(True)


def _import_bulk_modules() -> int:
    for name in BULK_MODULES:
        importlib.import_module(name)
    return len(BULK_MODULES)
