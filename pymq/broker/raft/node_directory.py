"""The files that a node of a Raft group has in its directory, and what they say of its role. It needs no group.

A broker of a plain group looks for them at its start, and does without the other modules of this package.
"""

from __future__ import annotations

import logging

import msgspec

from pymq.broker.replication.roles.role_file import RoleRecord, remembering, role_at_start
from pymq.config import BrokerConfig
from pymq.store.disk.fs import Files

log = logging.getLogger(__name__)

RAFT_STATE_FILE = "raftState.json"
TABLES_FILE = "raftTables.json"
RUN_RECORD_FILE = "raftRun"
UNKNOWN_ID = -1
# What a node's directory has of its group, with the file last that says so.
_GROUP_FILES = (RAFT_STATE_FILE, TABLES_FILE, RUN_RECORD_FILE)


def waits_in_plain_group(files: Files, root: str, last: RoleRecord | None) -> bool:
    """Return True for a broker directory that a plain group's broker used last. ``last``: its recorded role."""
    return last is not None and not files.exists(f"{root}/config/{RUN_RECORD_FILE}")


def role_in_plain_group(files: Files, config: BrokerConfig, last: RoleRecord | None) -> RoleRecord:
    """Return the role of a broker that starts in a plain group. ``last``: the recorded one.

    One that waits for its founding keeps its role: the settings of a node may lack ``brokerId``. A node's recorded role
    is none in the plain group to which it goes back: then the configured id counts, as if it had been another one.
    """
    was_node = files.exists(f"{config.store_path_root_dir}/config/{RUN_RECORD_FILE}")
    if last is not None and config.raft_enabled:
        record = last
    elif last is not None and was_node:
        record = role_at_start(msgspec.structs.replace(last, configured_id=UNKNOWN_ID), config.broker_id)
    else:
        record = role_at_start(last, config.broker_id)
    return remembering(record, config.broker_role)


def leave_group(files: Files, root: str) -> None:
    """Make a node's directory a plain broker's: its votes and its place in the group are gone. Raises OSError.

    With the group's settings again it is a new replica.
    """
    config = f"{root}/config"
    if not files.exists(f"{config}/{RUN_RECORD_FILE}"):
        return
    log.warning("%s belonged to a node of a Raft group: it leaves that group, as dLegerPeers is not set", root)
    for name in _GROUP_FILES:
        for path in (f"{config}/{name}", f"{config}/{name}.bak"):
            if files.exists(path):
                files.remove(path)
        files.sync_dir(config)
