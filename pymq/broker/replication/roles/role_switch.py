"""RoleSwitch: takes a broker out of one role and into another; the steps, their order, and what a failure leaves.

Whatever drives roles (an operator's ``promote``, a master that finds a newer one, an election) calls
:meth:`RoleSwitch.ask`. What a step does is the composition root's (:class:`Steps`); nothing here knows an event loop.
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
    """What the composition root can do. Each may raise PymqError or OSError, which stops the broker."""

    def refuse(self, why: str) -> None:
        """From now on requests are answered SERVICE_NOT_AVAILABLE with ``why``, and periodic work rests."""
        ...

    async def withdraw(self) -> None:
        """Takes the present id back from the name servers."""
        ...

    async def close(self) -> None:
        """Answers what waits, closes the connections of replication, then the parts and the store."""
        ...

    async def truncate(self, end: int, why: str) -> None:
        """Cuts the closed store's log to end at ``end``, with a record of what was cut."""
        ...

    async def save(self, record: RoleRecord) -> None:
        """Brings the record to the disk."""
        ...

    async def open(self, role: Role) -> None:
        """Opens parts in the new role; a master that begins an epoch has it in its epoch history when this returns."""
        ...

    async def announce(self) -> None:
        """Answers requests again, registers, and has clients connect anew."""
        ...


class RoleSwitch:
    """Changes the role of one broker, one change at a time."""

    def __init__(self, steps: Steps, clock: Clock, record: RoleRecord, wake: Callable[[], None]) -> None:
        """``record``: the role the broker has; ``wake``: has :meth:`run` called soon, not before the present turn is
        over."""
        self._steps = steps
        self._clock = clock
        self._record = record
        self._wake = wake
        self._wanted: RoleChange | None = None
        self.is_running = False
        self.change_count = 0

    @property
    def record(self) -> RoleRecord:
        """The role that was taken last, or is being taken."""
        return self._record

    @property
    def is_changing(self) -> bool:
        """True from the moment a change is asked for until it is made."""
        return self._wanted is not None or self.is_running

    def ask(self, change: RoleChange) -> None:
        """Has the role changed after the present turn. While a change waits or runs, another is dropped: whoever
        wanted it is closed by the first, and looks anew."""
        if self.is_changing:
            log.info("the role is changing already, this is dropped: %s", change.why)
            return
        self._wanted = change
        self._wake()

    def opened(self) -> RoleRecord:
        """The parts were opened in the recorded role: the record to be saved, without an epoch that is to begin."""
        self._record = replace(self._record, begins_epoch=False)
        return self._record

    def note_master_role(self, master_role: str) -> bool:
        """The group's master is this kind of one; True when :attr:`record` changed and is to be saved."""
        if master_role == self._record.master_role:
            return False
        self._record = replace(self._record, master_role=master_role)
        return True

    async def run(self) -> None:
        """Makes the change that was asked for. Raises what a step raised: the broker then serves nothing and must
        be stopped; started again, it is in the old role or the new one, as far as it came."""
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
        # A log that is cut and still called a master's would be served as one after a crash: the role comes first.
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
        await steps.open(role)
        if role.begins_epoch:
            await steps.save(self.opened())
        await steps.announce()


def _named(role: Role) -> str:
    return "the master" if role.broker_id == MASTER_ID else f"slave {role.broker_id}"


def _what_happened(id_before: int, change: RoleChange) -> str:
    """For a line in the log."""
    role = change.role
    if role.broker_id != id_before:
        return f"id {id_before} became {_named(role)}"
    if change.truncate_to is not None:
        return f"id {id_before} was opened anew, its log cut to end at {change.truncate_to}"
    if role.begins_epoch:
        return f"id {id_before} was opened anew as the master, and begins an epoch"
    return f"id {id_before} was opened anew"
