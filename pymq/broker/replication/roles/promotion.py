"""Promotion: requests to change a broker's role (9104), and when a broker refuses them.

Nothing here looks at the group. The sender (``pymq broker promote``) did, and names the epoch that it saw. A broker
refuses only what it knows to be unsafe.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from pymq.broker.addresses import own_address
from pymq.broker.replication.roles.own_role import OwnRole
from pymq.broker.replication.roles.role import Role, RoleChange
from pymq.broker.runtime import Runtime
from pymq.config.values import BROKER_ID_MAX
from pymq.errors import Refusal
from pymq.model.hosts import parse_address
from pymq.model.route import MASTER_ID
from pymq.wire.bodies_replication import (
    FENCE,
    FENCE_MS_MAX,
    PROMOTE,
    RESUME,
    STEP_DOWN,
    TRUNCATE,
    RoleAnswer,
    RoleRequest,
)
from pymq.wire.codes import ResponseCode

if TYPE_CHECKING:
    from pymq.broker.replication.roles.known_peers import KnownPeers
    from pymq.broker.replication.roles.write_fence import WriteFence
    from pymq.broker.replication.side import ReplicationSide
    from pymq.store.store import MessageStore

log = logging.getLogger(__name__)


class RoleRequests:
    """Checks and follows an operator's requests to one broker in one role."""

    def __init__(
        self,
        runtime: Runtime,
        *,
        store: MessageStore,
        own: OwnRole,
        write_fence: WriteFence,
        side: ReplicationSide,
        known_peers: KnownPeers,
        is_in_raft_group: bool = False,
    ) -> None:
        self._config = runtime.config
        self._is_in_raft_group = is_in_raft_group
        self._store = store
        self._role = own.role
        self._epoch_file = own.epoch_file
        self._write_fence = write_fence
        self._master_role = own.master_role
        self._side = side
        self._change_role = own.change_role
        self._known_peers = known_peers
        self._actions: Final = {
            FENCE: self._begin_fence,
            RESUME: self._end_fence,
            STEP_DOWN: self._step_down,
            PROMOTE: self._promote,
            TRUNCATE: self._truncate,
        }

    def follow(self, request: RoleRequest, sender: str) -> RoleAnswer:
        """Execute ``request`` of ``sender`` ("host:port"); a change of role follows after this turn.

        Raises Refusal for an action that does not fit this role, for an unforced one that could lose messages, and in a
        Raft group, which elects its leader itself.
        """
        if self._is_in_raft_group:
            name = self._config.broker_name
            raise _refusal(f"{name} is a Raft group and elects its leader: use pymq raft transfer {name} NODE")
        action = self._actions.get(request.action)
        if action is None:
            raise _refusal(f"action {request.action[:40]!r}: give one of {', '.join(self._actions)}")
        self._check_epoch(request.epoch)
        action(request, f"an operator at {sender} asked for it")
        return RoleAnswer(
            log_end=self._store.physical_max_offset,
            epoch=self._epoch_file.history.epoch,
            fence=self._write_fence.number,
        )

    def _check_epoch(self, epoch: int) -> None:
        ours = self._epoch_file.history.epoch
        if epoch not in (-1, ours):
            raise _refusal(f"this broker's newest epoch is {ours}, not {epoch}: look at the group again")

    def _begin_fence(self, request: RoleRequest, why: str) -> None:
        self._check_is_master(FENCE)
        if not 0 < request.fence_ms <= FENCE_MS_MAX:
            raise _refusal(f"fenceMs {request.fence_ms}: give 1 to {FENCE_MS_MAX}")
        self._write_fence.begin(request.fence_ms, f"another broker is about to become the master, {why}")

    def _end_fence(self, request: RoleRequest, why: str) -> None:
        self._check_is_master(RESUME)
        self._write_fence.end()

    def _step_down(self, request: RoleRequest, why: str) -> None:
        self._check_is_master(STEP_DOWN)
        if not MASTER_ID < request.broker_id <= BROKER_ID_MAX:
            raise _refusal(f"brokerId {request.broker_id}: a slave's is {MASTER_ID + 1} to {BROKER_ID_MAX}")
        ours = own_address(self._config)
        try:
            parse_address(request.master_address)
        except ValueError as error:
            raise _refusal(f"masterAddress: {error}") from None
        if request.master_address == ours:
            raise _refusal(f"masterAddress {ours} is this broker's own: name the one that becomes the master")
        if not self._write_fence.is_on and not request.force:
            raise _refusal("a master that takes writes would lose them by stepping down: fence it first")
        self._known_peers.remember(request.master_address)
        role = Role(request.broker_id, master_address=request.master_address)
        self._change_role(RoleChange(role, f"{request.master_address} becomes the master: {why}"))

    def _promote(self, request: RoleRequest, why: str) -> None:
        """Make a slave the master. A master that gets this request with force begins another epoch: of two masters with
        one epoch the other one then steps down."""
        if not request.force:
            self._check_is_safe()
        self._master_role.note(request.master_role)
        self._change_role(RoleChange(Role(MASTER_ID, begins_epoch=True), why))

    def _truncate(self, request: RoleRequest, why: str) -> None:
        """Truncate a slave's log where its master asked for it, with the operator's permission for this offset."""
        state = self._side.ha_client_state()
        if state is None or state.truncate_to < 0:
            raise _refusal("this broker waits for no permission to truncate its log: see pymq broker status")
        end = self._store.physical_max_offset
        if request.truncate_to != state.truncate_to:
            raise _refusal(
                f"truncateTo {request.truncate_to}: the master at {state.master_address} asks for {state.truncate_to}, "
                f"our log ends at {end}: name that offset"
            )
        what = f"the log from {state.truncate_to} to {end} is truncated to follow {state.master_address}"
        self._change_role(RoleChange(self._role, f"{what}: {why}", truncate_to=state.truncate_to))

    def _check_is_safe(self) -> None:
        state = self._side.ha_client_state()
        if state is None:
            raise _refusal("this broker is the master already")
        if self._side.is_following:
            raise _refusal(f"this slave follows the master at {state.master_address}: that one must step down first")
        lacking = state.master_log_end - self._store.physical_max_offset
        if lacking > 0:
            raise _refusal(
                f"the master at {state.master_address} had {lacking} bytes more, up to {state.master_log_end}: they "
                "would be lost; force it if they are lost anyway"
            )

    def _check_is_master(self, action: str) -> None:
        if not self._role.is_master:
            raise _refusal(f"this broker is slave {self._role.broker_id}: {action} is for a master")


def _refusal(text: str) -> Refusal:
    return Refusal(ResponseCode.INVALID_PARAMETER, text)
