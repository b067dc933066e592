"""HostedBroker and OpenParts: what a group sees of the broker around it."""

from __future__ import annotations

from typing import Protocol

from pymq.broker.replication.roles.role import Role, RoleChange
from pymq.store.store import MessageStore


class OpenParts(Protocol):
    """The parts of :class:`pymq.broker.assembly.parts.BrokerParts` that a group needs."""

    @property
    def role(self) -> Role: ...
    @property
    def store(self) -> MessageStore: ...


class HostedBroker(Protocol):
    """A broker that takes the role of its node: :class:`pymq.broker.assembly.raft_hosting.RaftHosting`."""

    @property
    def was_master(self) -> bool:
        """True for the master of the plain group at the last stop."""

    @property
    def is_changing(self) -> bool:
        """True while a change of role is under way."""

    def change_role(self, change: RoleChange) -> None:
        """Change the role after the present turn. The parts are closed for it."""

    def serve(self) -> None:
        """Serve with the open parts: all that their log had when they were opened is confirmed."""
