"""Which role a broker took last: ``config/role.json``, so that a restart with the old flags doesn't undo a fail-over.

The recorded role holds as long as the configured id is the one it was recorded with: an operator who gives another
``--id`` means it.
"""

from __future__ import annotations

import msgspec

from pymq.broker.replication.roles.role import Role
from pymq.config.values import ASYNC_MASTER, SLAVE
from pymq.errors import StoreError
from pymq.model.route import MASTER_ID
from pymq.store.disk.fs import Files
from pymq.store.disk.json_table import JsonTable

_FORMER_NAMES = {"beginsReign": "beginsEpoch"}  # members that had another name in earlier versions


class RoleRecord(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """``configured_id``: the id that flags or file gave when ``broker_id`` was taken. ``former_id``: see :class:`Role`.

    ``begins_epoch``: a master that has not yet noted in its epoch history that it is one. ``master_role``: what the group's
    master was when last seen (ASYNC_MASTER or SYNC_MASTER, empty: never seen); whoever is promoted goes on with it.
    ``why``, ``since_ms``: for people.
    """

    broker_id: int
    configured_id: int
    former_id: int = -1
    begins_epoch: bool = False
    master_role: str = ""
    why: str = ""
    since_ms: int = 0

    @property
    def role(self) -> Role:
        return Role(
            self.broker_id,
            begins_epoch=self.begins_epoch,
            former_id=self.former_id,
            master_role=self.master_role,
        )


def role_at_start(last: RoleRecord | None, configured_id: int) -> RoleRecord:
    """The role to start in. A master that was a slave before begins an epoch, whoever decided that."""
    if last is None:
        return RoleRecord(broker_id=configured_id, configured_id=configured_id)
    if last.configured_id == configured_id:
        return last
    return RoleRecord(
        broker_id=configured_id,
        configured_id=configured_id,
        former_id=last.broker_id,
        begins_epoch=configured_id == MASTER_ID and (last.broker_id != MASTER_ID or last.begins_epoch),
        master_role=last.master_role,
        why=f"brokerId is {configured_id} in the configuration, it was {last.configured_id}",
    )


def remembering(record: RoleRecord, configured: str) -> RoleRecord:
    """The record of a broker whose ``brokerRole`` is configured: unless it has seen another master, its group's is
    what it would be itself. So a master that becomes a slave and then master again keeps its promise."""
    if record.master_role or configured == SLAVE:
        return record
    return msgspec.structs.replace(record, master_role=configured)


def demoted(record: RoleRecord, role: Role, why: str, now_ms: int) -> RoleRecord:
    """The record of a master that starts as this slave."""
    return msgspec.structs.replace(
        record,
        broker_id=role.broker_id,
        former_id=record.broker_id,
        begins_epoch=False,
        why=why,
        since_ms=now_ms,
    )


def role_name_at_start(record: RoleRecord, configured: str) -> str:
    """``brokerRole`` for a broker that starts; ``configured``: what its configuration says."""
    if not record.role.is_master:
        return SLAVE
    return configured if configured != SLAVE else record.master_role or ASYNC_MASTER


def role_name_after_change(record: RoleRecord, before: str) -> str:
    """``brokerRole`` for a broker whose role has changed: a new master promises what the one before it did."""
    if not record.role.is_master:
        return SLAVE
    return record.master_role or (before if before != SLAVE else ASYNC_MASTER)


class RoleFile:
    """The file below a store's root."""

    def __init__(self, files: Files, root: str) -> None:
        self._path = f"{root}/config/role.json"
        self._table = JsonTable(files, self._path)

    def load(self) -> RoleRecord | None:
        """None when the directory has none yet. Raises StoreError for one that can't be used."""
        table = self._table.load()
        if not table:
            return None
        try:
            return msgspec.convert({_FORMER_NAMES.get(name, name): value for name, value in table.items()}, RoleRecord)
        except msgspec.ValidationError as error:
            raise StoreError(
                f"{self._path} is no record of a role ({error}): put back a copy, or remove it and its .bak to start "
                "in the configured role"
            ) from error

    def save(self, record: RoleRecord) -> None:
        """Raises StoreUnavailableError."""
        self._table.save(msgspec.to_builtins(record))
