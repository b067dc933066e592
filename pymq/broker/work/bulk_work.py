"""BulkWork: loads numpy and the parser of expressions after some messages, while the broker continues to serve."""

from __future__ import annotations

import gc
import importlib
import logging
import sys

from pymq.broker.work.worker_threads import Result, RunInThread
from pymq.filter.sql92 import compile_sql
from pymq.store.store import MessageStore

log = logging.getLogger(__name__)

# They import numpy, and lark: the first expression would hold the event loop for 150 ms if it had to load them.
BULK_MODULES = (
    "pymq.store.write.uniform_batch",
    "pymq.store.dispatch.bulk_dispatch",
    "pymq.filter.prefilter",
    "pymq.filter.parser",
)
# So many new bytes of the log are worth numpy, which takes 200 ms of CPU and 25 MB. A busy broker has them at once.
LOADED_AFTER_BYTES = 64 * 1024


class BulkWork:
    """Tells each store in turn whether it may work with numpy. A broker with few messages does not load it."""

    def __init__(self, run_in_thread: RunInThread) -> None:
        self._run_in_thread = run_in_thread
        self._store: MessageStore | None = None
        self._idle_end = 0
        self._is_asked = False
        self._is_loaded = False
        self._were_modules_loaded = False

    def prepare(self, store: MessageStore, *, is_awaited: bool) -> None:
        """Take a store that was just opened. ``is_awaited``: load numpy now, not with the first message."""
        self._store = store
        self._idle_end = store.physical_max_offset
        store.set_bulk_ready(self._is_loaded)
        if is_awaited:
            self._load()

    def tick(self) -> None:
        """Load numpy if so much has come since :meth:`prepare`, or the store wants it. Call it now and then."""
        store = self._store
        if store is None:
            return
        if abs(store.physical_max_offset - self._idle_end) >= LOADED_AFTER_BYTES or store.is_bulk_wanted:
            self._load()

    def _load(self) -> None:
        """Start to load numpy, once."""
        if not self._is_asked:
            self._is_asked = True
            self._were_modules_loaded = all(name in sys.modules for name in BULK_MODULES)
            self._run_in_thread(_import_bulk_modules, self._loaded)

    def _loaded(self, outcome: Result) -> None:
        try:
            outcome.result()
        except ImportError as error:
            log.warning("bulk work takes longer because numpy can't be loaded: %s", error)
            return
        self._is_loaded = True
        if not self._were_modules_loaded:
            # Modules live as long as the process: no search for reference cycles needs to see them. Not again for the
            # next broker in this process: what others have ended with would stay for ever.
            gc.freeze()
        if self._store is not None:
            self._store.set_bulk_ready(True)


def _import_bulk_modules() -> int:
    for name in BULK_MODULES:
        importlib.import_module(name)
    compile_sql("TRUE")  # makes the parser, where it is not made yet
    return len(BULK_MODULES)
