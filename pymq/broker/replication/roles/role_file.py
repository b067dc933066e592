"""RoleFile: the last role of a broker, in ``config/role.json``. A restart with the old flags doesn't undo a fail-over.

The recorded role counts as long as the configured id is the same as when it was recorded. Another ``--id`` of the
operator overrules it.
"""

from __future__ import annotations

import msgspec

from pymq.broker.replication.roles.role import Role
from pymq.config.values import ASYNC_MASTER, SLAVE
from pymq.errors import StoreError
from pymq.model.route import MASTER_ID
from pymq.store.disk.fs import Files
from pymq.store.disk.json_table import JsonTable


class RoleRecord(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """The content of the file.

    ``configured_id`` is the id in flags or configuration when the broker took ``broker_id``. ``begins_epoch``: the
    broker is the master, but its epoch history has no entry for that yet. ``master_role`` is the role of the group's
    master when it was last seen (ASYNC_MASTER or SYNC_MASTER, empty if never); a promoted slave keeps it. See
    :class:`Role` for ``former_id``. ``why`` and ``since_ms`` are information for operators.
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
    """Return the role to start in. A master that was a slave before begins an epoch."""
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
    """Return the record with ``configured``, the configured ``brokerRole``, as the role of the group's master.

    A record that has a master's role stays as it is. So a master that becomes a slave and then the master again keeps
    its promise to senders.
    """
    if record.master_role or configured == SLAVE:
        return record
    return msgspec.structs.replace(record, master_role=configured)


def demoted(record: RoleRecord, role: Role, why: str, now_ms: int) -> RoleRecord:
    """Return the record of a master that starts as this slave."""
    return msgspec.structs.replace(
        record,
        broker_id=role.broker_id,
        former_id=record.broker_id,
        begins_epoch=False,
        why=why,
        since_ms=now_ms,
    )


def role_name_at_start(record: RoleRecord, configured: str) -> str:
    """Return ``brokerRole`` for a broker that starts; ``configured`` is the one in its configuration."""
    if not record.role.is_master:
        return SLAVE
    return configured if configured != SLAVE else record.master_role or ASYNC_MASTER


def role_name_after_change(record: RoleRecord, before: str) -> str:
    """Return ``brokerRole`` after a change of role: a new master takes over the role of the previous one."""
    if not record.role.is_master:
        return SLAVE
    return record.master_role or (before if before != SLAVE else ASYNC_MASTER)


class RoleFile:
    """The file of the broker directory ``root``."""

    def __init__(self, files: Files, root: str) -> None:
        self._path = f"{root}/config/role.json"
        self._table = JsonTable(files, self._path)

    def load(self) -> RoleRecord | None:
        """Return the record; None without a file. Raises StoreError for a file that can't be used."""
        table = self._table.load()
        if not table:
            return None
        try:
            return msgspec.convert(table, RoleRecord)
        except msgspec.ValidationError as error:
            raise StoreError(
                f"{self._path} is not the record of a role ({error}): put back a copy, or remove it and its .bak to "
                "start in the configured role"
            ) from error

    def save(self, record: RoleRecord) -> None:
        """Write the file. Raises StoreUnavailableError."""
        self._table.save(msgspec.to_builtins(record))
