"""What takes the place of SYNC_MASTER's rule in a Raft group: an answer waits for the confirm offset, nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from pymq.broker.replication.roles.role import Role
from pymq.broker.replication.sync_mode import LateReply, Slaves, SyncMode, unsure_reply
from pymq.config import BrokerConfig
from pymq.store.store import MessageStore
from pymq.wire.bodies_replication import SlaveState


class GroupView(Protocol):
    """What is asked of :class:`pymq.broker.raft.group.RaftGroup`."""

    @property
    def confirm_offset(self) -> int: ...
    @property
    def voter_count(self) -> int: ...
    @property
    def why_no_writes(self) -> str: ...
    def follower_states(self) -> list[SlaveState]: ...


class Replicas:
    """The followers of a leader, where a plain master has its HaService: who they are, and when more is confirmed."""

    def __init__(self, group: GroupView) -> None:
        self._group = group
        self._listeners: list[Callable[[], None]] = []
        self.on_slave: Callable[[int, str], None] = lambda broker_id, address: None

    def add_ack_listener(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` when the confirm offset has moved."""
        self._listeners.append(listener)

    def confirmed(self) -> None:
        """Tell that the confirm offset has moved."""
        for listener in self._listeners:
            listener()

    def states(self) -> list[SlaveState]:
        return self._group.follower_states()

    @property
    def in_sync_count(self) -> int:
        return sum(state.in_sync for state in self.states())

    @property
    def are_all_there(self) -> bool:
        return all(state.is_connected for state in self.states())

    def live_address(self, broker_id: int) -> str:
        return next((state.address for state in self.states() if state.broker_id == broker_id), "")

    def offset_acked_by(self, slave_count: int) -> int:
        return self._group.confirm_offset

    def committed(self) -> None:
        """The group looks at the log's end itself, at the end of each turn."""

    def tick(self) -> None:
        """The group has a clock of its own."""

    def close(self, why: str) -> None:
        self._listeners.clear()


class MajorityMode(SyncMode):
    """The rule of a Raft group's leader."""

    _log_name = "Raft group"

    def __init__(
        self, group: GroupView, *, config: BrokerConfig, store: MessageStore, role: Role, slaves: Slaves
    ) -> None:
        super().__init__(config=config, store=store, role=role, slaves=slaves)
        self.group = group

    @property
    def is_on(self) -> bool:
        return self._role.is_master

    @property
    def counts_own_disk(self) -> bool:
        return True

    @property
    def required_slaves(self) -> int:
        return self.group.voter_count // 2 if self.is_on else 0

    @property
    def needed_slaves(self) -> int:
        return self.required_slaves

    @property
    def is_degraded(self) -> bool:
        return False

    def confirm_offset(self) -> int:
        return self.group.confirm_offset

    def late_reply(self) -> LateReply:
        return unsure_reply(
            f"no majority of {self.group.voter_count} voters confirmed it within {self.timeout_ms} ms (slaveTimeout)"
        )

    def given_up_reply(self, why: str, *, keeps_log: bool) -> LateReply:
        return unsure_reply(why)

    def _reason(self) -> tuple[tuple[object, ...], str] | None:
        why = self.group.why_no_writes
        return (("raft",), why) if why else self._too_much()
