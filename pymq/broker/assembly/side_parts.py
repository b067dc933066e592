"""SideParts: what a side of replication works with, in every role."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pymq.broker.assembly.messages import Messages
from pymq.broker.assembly.replication import Replication
from pymq.broker.metadata.config_tables import ConfigTables
from pymq.broker.metadata.metadata import Metadata
from pymq.broker.replication.roles.role import Role
from pymq.broker.replication.tables.replicated_tables import ReplicatedTable
from pymq.store.store import MessageStore


@dataclass(frozen=True, slots=True)
class SideParts:
    """``tables``: what slaves copy; ``config_tables``: where this broker saves its own."""

    role: Role
    store: MessageStore
    metadata: Metadata
    messages: Messages
    replication: Replication
    tables: Sequence[ReplicatedTable]
    config_tables: ConfigTables
