"""OwnRole: the role that a broker has, where it is written down, and how another one is asked for, as one value."""

from __future__ import annotations

from dataclasses import dataclass

from pymq.broker.replication.history.epoch_file import EpochFile
from pymq.broker.replication.roles.master_role import SeenMasterRole
from pymq.broker.replication.roles.role import ChangeRole, Role


@dataclass(frozen=True, slots=True)
class OwnRole:
    """``role`` holds while the broker's parts are open; ``change_role`` opens the parts again with another.

    ``epoch_file`` has the history of this log; ``master_role`` is what the group's master was when it was last seen.
    """

    role: Role
    epoch_file: EpochFile
    master_role: SeenMasterRole
    change_role: ChangeRole
