"""ReplicationSide: what a broker asks of replication in whichever role it has.

A master's is :class:`pymq.broker.assembly.master_side.MasterSide`, a slave's
:class:`pymq.broker.assembly.slave_side.SlaveSide`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from pymq.broker.work.jobs import Job
from pymq.wire.bodies_replication import HaClientState, SlaveState
from pymq.wire.streams import StreamHandler


class ReplicationSide(Protocol):
    """One broker's side of replication while its parts live."""

    def open(self) -> None:
        """Find out how far groups and delay levels have come, once store and tables are read. Raises StoreError."""
        ...

    def end_turn(self) -> None:
        """Send and answer what this turn of the event loop brought."""
        ...

    def close(self, why: str) -> None:
        """End the connections of replication because of ``why``; ask and answer nothing more."""
        ...

    def jobs(self) -> list[Job]:
        """The periodic work of this side."""
        ...

    def members(self) -> list[str]:
        """Addresses of the group's brokers that this side is connected to or was."""
        ...

    def note_master(self, master_address: str, ha_address: str) -> None:
        """Take note where the name servers say that the master is. A master ignores it."""
        ...

    def slave_states(self) -> list[SlaveState]:
        """Each slave of this master; a slave has none."""
        ...

    def ha_client_state(self) -> HaClientState | None:
        """How a slave follows its master; a master follows none."""
        ...

    @property
    def master_address(self) -> str:
        """Where a slave's master answers requests, empty when that is unknown or this broker is a master."""
        ...

    @property
    def is_following(self) -> bool:
        """True while this slave copies its master's log."""
        ...

    @property
    def has_caught_up(self) -> bool:
        """True when this broker has had all of its master's log since it started; a master's log is the master's."""
        ...

    @property
    def has_all_slaves(self) -> bool:
        """False while a slave of this master is gone."""
        ...

    @property
    def accept(self) -> Callable[[], StreamHandler] | None:
        """What makes the handler of a slave's connection; None where no slave connects to a port of its own."""
        ...

    @property
    def tables_fence(self) -> int:
        """The number of the master's write fence whose tables a plain group's slave has; 0 for none."""
        ...
