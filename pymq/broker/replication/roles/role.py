"""Role: whether a broker is a master or a slave, for the lifetime of its parts.

A broker's parts never change their role while they are open. For a change (by configuration, by ``pymq broker
promote``) the composition root gets a :class:`RoleChange`, closes the parts, truncates the log if the change says so,
and opens the parts in the new role. So no part needs to know that roles can change.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pymq.model.route import MASTER_ID


@dataclass(frozen=True, slots=True)
class Role:
    """A broker's role: ``broker_id`` 0 is a master, other ids are slaves.

    ``begins_epoch``: a master begins a new epoch. ``master_address`` is a slave's master ("host:port"); empty to learn
    it from the name servers. ``master_role`` is the role of the group's master when it was last seen, ASYNC_MASTER or
    SYNC_MASTER; empty if never. ``former_id`` is the id before this role, -1 for none; the master before a new one may
    take that id.
    """

    broker_id: int
    begins_epoch: bool = False
    master_address: str = ""
    former_id: int = -1
    master_role: str = ""

    @property
    def is_master(self) -> bool:
        return self.broker_id == MASTER_ID


@dataclass(frozen=True, slots=True)
class RoleChange:
    """A change to ``role``. ``why`` is logged and shown.

    ``truncate_to``: the log is truncated to end there first, and the removed part is kept; None leaves it as it is.
    ``discards_log``: a member of a Raft group goes on without log and state, as a node with an empty disk.
    """

    role: Role
    why: str
    truncate_to: int | None = None
    discards_log: bool = False


# Asks the composition root for a change. It happens after the current turn and closes the caller's parts.
ChangeRole = Callable[[RoleChange], None]
