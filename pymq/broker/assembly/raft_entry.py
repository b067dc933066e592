"""RaftEntry: a broker's way into its Raft group: it is a node from its start, or waits in the plain group."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Protocol

from pymq.broker.assembly.raft_hosting import OpenSettings, RaftHosting, make_answer_proof, member_record
from pymq.broker.raft.waiting import ServingParts, WaitingMember, waits_in_plain_group
from pymq.broker.replication.roles.role import RoleChange
from pymq.broker.replication.roles.role_file import RoleRecord
from pymq.broker.replication.roles.role_switch import RoleSwitch
from pymq.clock import Clock
from pymq.config import BrokerConfig
from pymq.store.disk.fs import Files
from pymq.wire.streams import Network


class MakeHosting(Protocol):
    """Makes what hosts the node; ``was_master``: of the plain group, at the last stop."""

    def __call__(self, members: OpenSettings, *, was_master: bool) -> RaftHosting: ...


class RaftEntry:
    """The way of one broker whose settings name a group."""

    def __init__(
        self,
        members: OpenSettings,
        last: RoleRecord | None,
        *,
        config: BrokerConfig,
        files: Files,
        clock: Clock,
        network: Network,
        make_hosting: MakeHosting,
        parts: Callable[[], ServingParts | None],
        rng: random.Random,
    ) -> None:
        """``last``: the recorded role; ``parts``: the present ones, if any."""
        self.settings = settings = members.settings
        self.is_entering = False  # the parts that are opened next are a node's
        self.waiting: WaitingMember | None = None
        self._members = members
        self._was_master = last is not None and last.role.is_master
        self._make_hosting = make_hosting
        self._hosting: RaftHosting | None = None
        self._switch: RoleSwitch | None = None
        if waits_in_plain_group(files, config.store_path_root_dir, last):
            self.waiting = WaitingMember(
                settings, config=config, network=network, clock=clock, parts=parts, become_node=self._become_node,
                answer_proof=make_answer_proof(config, members, rng),
            )  # fmt: skip

    @property
    def keeps_role(self) -> bool:
        """True while the recorded role in the plain group counts, though this broker may have another one by now."""
        return self.waiting is None and (self._hosting is None or not self._hosting.group.gate.founded)

    def begin(self, switch: RoleSwitch) -> RaftHosting | None:
        """Return what hosts the node of a broker that starts as one."""
        self._switch = switch
        return self.enter() if self.waiting is None else None

    def enter(self) -> RaftHosting:
        """Return what hosts the node. The parts of the plain group, if there were any, are closed."""
        self.is_entering = False
        self._hosting = self._make_hosting(self._members, was_master=self._was_master)
        return self._hosting

    def _become_node(self, why: str) -> None:
        assert self._switch is not None
        record, role = member_record(self.settings)
        self._was_master = self._switch.record.role.is_master
        self.waiting, self.is_entering = None, True
        self._switch.note_master_role(record.master_role)
        self._switch.ask(RoleChange(role, why))
