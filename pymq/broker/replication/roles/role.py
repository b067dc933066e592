"""Role: what a broker is while its parts live.

A broker never changes its role under its open parts: whoever decides (the configuration, an operator's ``promote``,
later an election) gives a :class:`RoleChange` to the composition root, which closes the parts, cuts the log when that
is asked for, and opens them again in the new role. So no part needs to know that roles can change.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pymq.model.route import MASTER_ID


@dataclass(frozen=True, slots=True)
class Role:
    """``broker_id`` 0 is a master, which begins an epoch when it ``begins_epoch``; others are slaves.

    ``master_address``: where a slave's master answers requests ("host:port"), empty to learn it from the name servers.
    ``master_role``: what the group's master was when last seen, ASYNC_MASTER or SYNC_MASTER; empty: never seen.
    ``former_id``: the id it had before this role, -1 for none; a new master's is free for the one it took over from.
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
    """From now on ``role``. ``truncate_to``: before that the log is cut to end there (None: as it is), with a record of
    what was cut; ``why`` is logged and shown.
    """

    role: Role
    why: str
    truncate_to: int | None = None


# Asks the composition root for a change; it happens after the current turn, and closes whoever asked.
ChangeRole = Callable[[RoleChange], None]
