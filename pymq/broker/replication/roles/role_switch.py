"""RoleSwitch: changes a broker's role: the steps, their order, and what a failure leaves.

Everything that changes a role (``pymq broker promote``, a master that finds a newer one) calls :meth:`RoleSwitch.ask`.
The composition root implements the steps (:class:`Steps`); nothing here knows an event loop.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable
from typing import Protocol

from msgspec.structs import replace

from pymq.broker.replication.roles.role import Role, RoleChange
from pymq.broker.replication.roles.role_file import RoleRecord
from pymq.clock import Clock
from pymq.errors import PymqError
from pymq.model.route import MASTER_ID

log = logging.getLogger(__name__)


class Steps(Protocol):
    """The steps of the composition root. Each may raise PymqError or OSError, which stops the broker."""

    def refuse(self, why: str) -> None:
        """Answer requests with SERVICE_NOT_AVAILABLE and ``why`` from now on, and pause periodic work."""
        ...

    async def withdraw(self) -> None:
        """Remove the present id from the name servers."""
        ...

    async def close(self) -> None:
        """Answer what waits, close the HA connections, then the parts and the store."""
        ...

    async def truncate(self, end: int, why: str) -> None:
        """Truncate the closed store's log to end at ``end``, and keep the removed part."""
        ...

    async def discard(self) -> None:
        """Discard the closed store's log and what belongs to it."""
        ...

    async def save(self, record: RoleRecord) -> None:
        """Write the record to the disk."""
        ...

    async def open(self, role: Role) -> None:
        """Open the parts in the new role. A new epoch is in the epoch history when this returns."""
        ...

    async def announce(self) -> None:
        """Answer requests again, register, and close the clients' connections so that they connect again."""
        ...


class RoleSwitch:
    """Changes the role of one broker, one change at a time."""

    def __init__(self, steps: Steps, clock: Clock, record: RoleRecord, wake: Callable[[], None]) -> None:
        """``record`` is the present role. ``wake`` schedules a call of :meth:`run` after the present turn."""
        self._steps = steps
        self._clock = clock
        self._record = record
        self._wake = wake
        self._wanted: RoleChange | None = None
        self.is_running = False
        self.change_count = 0

    @property
    def record(self) -> RoleRecord:
        """The present role, or the one that the broker is changing to."""
        return self._record

    @property
    def is_changing(self) -> bool:
        """True from a call of :meth:`ask` until the change is made."""
        return self._wanted is not None or self.is_running

    def ask(self, change: RoleChange) -> None:
        """Change the role after the present turn. While a change waits or runs, another one is dropped: the first one
        closes the part that wanted it, and its successor decides again."""
        if self.is_changing:
            log.info("the role is changing already, another change is dropped: %s", change.why)
            return
        self._wanted = change
        self._wake()

    def opened(self) -> RoleRecord:
        """Note that the parts are open in the recorded role. Return the record to save: its epoch has begun."""
        self._record = replace(self._record, begins_epoch=False)
        return self._record

    def note_master_role(self, master_role: str) -> bool:
        """Note the role of the group's master. Return True when :attr:`record` changed and must be saved."""
        if master_role == self._record.master_role:
            return False
        self._record = replace(self._record, master_role=master_role)
        return True

    async def run(self) -> None:
        """Make the change that :meth:`ask` got.

        Raises the error of a failed step. The broker then serves nothing and must be stopped; after a restart it has
        the old or the new role.
        """
        change, self._wanted = self._wanted, None
        if change is None:
            return
        self.is_running = True
        before = self._record
        try:
            await self._change(before, change)
        except (PymqError, OSError):
            log.exception(
                "id %d could not be opened as %s (%s): the broker stops",
                before.broker_id,
                _named(change.role),
                change.why,
            )
            raise
        self.is_running = False
        self.change_count += 1
        log.warning("%s: %s", _what_happened(before.broker_id, change), change.why)

    async def _change(self, before: RoleRecord, change: RoleChange) -> None:
        steps, role = self._steps, dataclasses.replace(change.role, master_role=before.master_role)
        if role.broker_id != before.broker_id:
            role = dataclasses.replace(role, former_id=before.broker_id)
        steps.refuse(f"the broker is becoming {_named(role)} ({change.why}): send again in a moment")
        await steps.withdraw()
        await steps.close()
        # The role is saved first: after a crash a truncated log must not be served as a master's.
        self._record = replace(
            before,
            broker_id=role.broker_id,
            former_id=role.former_id,
            begins_epoch=role.begins_epoch,
            why=change.why,
            since_ms=self._clock.now_ms(),
        )
        await steps.save(self._record)
        if change.truncate_to is not None:
            await steps.truncate(change.truncate_to, change.why)
        if change.discards_log:
            await steps.discard()
        await steps.open(role)
        if role.begins_epoch:
            await steps.save(self.opened())
        await steps.announce()


def _named(role: Role) -> str:
    return "the master" if role.broker_id == MASTER_ID else f"slave {role.broker_id}"


def _what_happened(id_before: int, change: RoleChange) -> str:
    """Return the text of a log line."""
    role = change.role
    if role.broker_id != id_before:
        return f"id {id_before} became {_named(role)}"
    if change.truncate_to is not None:
        return f"id {id_before} was opened again, with its log truncated at {change.truncate_to}"
    if role.begins_epoch:
        return f"id {id_before} was opened again as the master, and begins an epoch"
    return f"id {id_before} was opened again"
