"""UnsyncedReplicas: slaves that may have messages that a power loss would take from this master.

A master may answer a send when slaves have the message and its own disk does not. So it lists each slave in
``config/unsyncedReplicas.json`` before it sends the first byte to it. A slave leaves the list when it is gone and the
master's disk has everything that was ever sent to it. After a power loss the master knows which slaves to ask, even
when no name server knows them any more.
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
from pymq.wire.bodies_replication import SlaveState

log = logging.getLogger(__name__)

UNSYNCED_REPLICAS_FILE = "unsyncedReplicas.json"
TICK_PERIOD_MS = 1000
UNSYNCED_REPLICAS_MAX = 64  # as many as can be connected (ha_service.CONNECTIONS_MAX)
_SLAVES = "slaves"


def unsynced_replicas_table(files: Files, root: str) -> JsonTable:
    """Return the table of the broker directory ``root``."""
    return JsonTable(files, f"{root}/config/{UNSYNCED_REPLICAS_FILE}")


class UnsyncedReplicas:
    """Keeps ``slaves``, id -> "host:port". A change is on the disk when its method returns."""

    def __init__(self, table: JsonTable, clock: Clock, joining_ms: Callable[[], int]) -> None:
        """``joining_ms`` returns the time that a noted slave has to connect."""
        self._table = table
        self._clock = clock
        self._joining_ms = joining_ms
        self._noted_ms: dict[int, int] = {}  # monotonic; of slaves that joined since the start
        self.slaves: dict[int, str] = {}

    def load(self) -> None:
        """Read the file. Raises StoreError for a file that can't be used."""
        table = self._table.load()
        try:
            self.slaves = msgspec.convert(table.get(_SLAVES, {}), dict[int, str], strict=False)
        except msgspec.ValidationError as error:
            raise StoreError(
                f"config/{UNSYNCED_REPLICAS_FILE}: {error}; it lists the slaves to ask after a power loss: "
                "without the file this master waits for none"
            ) from error

    def note(self, broker_id: int, address: str) -> None:
        """Note a slave before it is sent the log. Raises StoreUnavailableError; then it must not be sent anything."""
        if broker_id not in self.slaves and len(self.slaves) >= UNSYNCED_REPLICAS_MAX:
            raise StoreUnavailableError(
                f"{len(self.slaves)} slaves joined lately, which is the limit: try again when some have been away for "
                "haHousekeepingInterval"
            )
        if self.slaves.get(broker_id) != address:
            others = {other: where for other, where in self.slaves.items() if where != address}
            self._save({**others, broker_id: address})
        self._noted_ms[broker_id] = self._clock.monotonic_ms()

    def forget_needless(self, slaves: Iterable[SlaveState], synced_offset: int) -> None:
        """Drop slaves that are gone and were sent nothing after ``synced_offset``, the end of the log on our disk.

        ``slaves`` are all slaves that the master knows, connected or gone. Bytes count that were sent to a slave, also
        without its acknowledgement: the slave may show them to consumers.
        """
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
                log.warning("slaves that are gone could not be removed from the unsynced replicas: %s", error)
                return
        self._noted_ms = {broker_id: self._noted_ms[broker_id] for broker_id in kept if broker_id in self._noted_ms}

    def _save(self, slaves: dict[int, str]) -> None:
        table: dict[str, Any] = {_SLAVES: {str(broker_id): slaves[broker_id] for broker_id in sorted(slaves)}}
        self._table.save(table)
        self.slaves = slaves
