"""BulkWork: loads numpy once there is work for it, while the broker continues to serve."""

from __future__ import annotations

import importlib
import logging

from pymq.broker.upkeep.flusher import Result, RunInThread
from pymq.store.store import MessageStore

log = logging.getLogger(__name__)

BULK_MODULES = ("pymq.store.write.uniform_batch", "pymq.store.dispatch.bulk_dispatch")  # they import numpy


class BulkWork:
    """Tells each store in turn whether it may work with numpy. An idle broker does not load it."""

    def __init__(self, run_in_thread: RunInThread) -> None:
        self._run_in_thread = run_in_thread
        self._store: MessageStore | None = None
        self._idle_end = 0
        self._is_asked = False
        self._is_loaded = False

    def prepare(self, store: MessageStore, *, is_awaited: bool) -> None:
        """Takes a store that was just opened. ``is_awaited``: load numpy now, not with the first message."""
        self._store = store
        self._idle_end = store.physical_max_offset
        store.set_bulk_ready(self._is_loaded)
        if is_awaited:
            self._load()

    def tick(self) -> None:
        """Loads numpy if messages have come since :meth:`prepare`. Call it now and then."""
        if self._store is not None and self._store.physical_max_offset != self._idle_end:
            self._load()

    def _load(self) -> None:
        """Starts to load numpy, once."""
        if not self._is_asked:
            self._is_asked = True
            self._run_in_thread(_import_bulk_modules, self._loaded)

    def _loaded(self, outcome: Result) -> None:
        try:
            outcome.result()
        except ImportError as error:
            log.warning("bulk work takes longer because numpy can't be loaded: %s", error)
            return
        self._is_loaded = True
        if self._store is not None:
            self._store.set_bulk_ready(True)


def _import_bulk_modules() -> int:
    for name in BULK_MODULES:
        importlib.import_module(name)
    return len(BULK_MODULES)
