"""UnsyncedReplicas: which slaves may have messages that a power loss would take from this master.

A master answers a send when slaves have the message, which may be before it is on its own disk. Whoever could be such
a slave stands in ``config/unsyncedReplicas.json`` before the first byte is sent to it, and leaves it when it is gone and the
master's disk has all that it was ever sent. So after a power loss the master knows whom to ask for what it lost, also
when name servers have forgotten them all.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from pymq.clock import Clock
from pymq.errors import StoreError, StoreUnavailableError
from pymq.store.disk.fs import Files
from pymq.store.disk.json_table import JsonTable
from pymq.store.disk.renamed_table import RenamedTable
from pymq.wire.bodies_replication import SlaveState

log = logging.getLogger(__name__)

UNSYNCED_REPLICAS_FILE = "unsyncedReplicas.json"
FORMER_FILE = "tailHolders.json"  # its name in earlier versions
TICK_PERIOD_MS = 1000
UNSYNCED_REPLICAS_MAX = 64  # as many as can be connected (feeds.CONNECTIONS_MAX)
_SLAVES = "slaves"


def unsynced_replicas_table(files: Files, root: str) -> RenamedTable:
    """Return the table of the broker directory ``root``."""
    return RenamedTable(files, f"{root}/config/{UNSYNCED_REPLICAS_FILE}", f"{root}/config/{FORMER_FILE}")


class UnsyncedReplicas:
    """``slaves``: id -> "host:port" of each. Every change is on the disk when a method returns."""

    def __init__(self, table: JsonTable, clock: Clock, joining_ms: Callable[[], int]) -> None:
        """``joining_ms``: within which a slave that was noted must have connected."""
        self._table = table
        self._clock = clock
        self._joining_ms = joining_ms
        self._noted_ms: dict[int, int] = {}  # monotonic; of those that joined in this life
        self.slaves: dict[int, str] = {}

    def load(self) -> None:
        """Reads the file. Raises StoreError for one that can't be used."""
        table = self._table.load()
        try:
            self.slaves = msgspec.convert(table.get(_SLAVES, {}), dict[int, str], strict=False)
        except msgspec.ValidationError as error:
            raise StoreError(
                f"config/{UNSYNCED_REPLICAS_FILE}: {error}; it says which slaves to ask after a power loss: "
                "without the file none is waited for"
            ) from error

    def note(self, broker_id: int, address: str) -> None:
        """A slave is about to be sent the log. Raises StoreUnavailableError; then it must not be."""
        if broker_id not in self.slaves and len(self.slaves) >= UNSYNCED_REPLICAS_MAX:
            raise StoreUnavailableError(
                f"{len(self.slaves)} slaves joined lately, no more are taken: try again when some have been away for a "
                "while (haHousekeepingInterval)"
            )
        if self.slaves.get(broker_id) != address:
            self._save({**self.slaves, broker_id: address})
        self._noted_ms[broker_id] = self._clock.monotonic_ms()

    def forget_needless(self, slaves: Iterable[SlaveState], synced_offset: int) -> None:
        """Drops those that are gone and were sent nothing behind ``synced_offset``, up to where the master's log is on
        its disk: what they did not confirm any more they may show to consumers. ``slaves``: all that the master knows
        of, here and gone."""
        needed = {slave.broker_id for slave in slaves if slave.is_connected or slave.sent_offset > synced_offset}
        now_ms, joining_ms = self._clock.monotonic_ms(), self._joining_ms()
        kept = {
            broker_id: address
            for broker_id, address in self.slaves.items()
            if broker_id in needed or now_ms - self._noted_ms.get(broker_id, -joining_ms) < joining_ms
        }
        if kept != self.slaves:
            try:
                self._save(kept)
            except StoreError as error:
                log.warning("slaves that are gone are still to be asked after a power loss: %s", error)
                return
        self._noted_ms = {broker_id: self._noted_ms[broker_id] for broker_id in kept if broker_id in self._noted_ms}

    def _save(self, slaves: dict[int, str]) -> None:
        table: dict[str, Any] = {_SLAVES: {str(broker_id): slaves[broker_id] for broker_id in sorted(slaves)}}
        self._table.save(table)
        self.slaves = slaves
