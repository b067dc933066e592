"""StartupCheck: before a broker serves, it asks its group whether it is still the master, and what its log lacks."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Protocol, TypeVar

from pymq.broker.addresses import own_address
from pymq.broker.replication.history.epoch_file import EpochFile
from pymq.broker.replication.history.epoch_history import EpochHistory
from pymq.broker.replication.roles.group_probe import GroupProbe, Member
from pymq.broker.replication.roles.known_peers import KnownPeers
from pymq.broker.replication.roles.member_proof import MemberProof
from pymq.broker.replication.roles.role import Role
from pymq.broker.replication.roles.role_file import RoleRecord, demoted
from pymq.broker.replication.roles.second_master import Findings, Ourselves, judge
from pymq.broker.replication.roles.unclear_members import RETRY_MS, decide_start
from pymq.broker.replication.tail_recovery.tail_recovery import TailRecovery
from pymq.broker.replication.tail_recovery.tail_search import RecoveredTail
from pymq.broker.runtime import Runtime
from pymq.errors import UsageError
from pymq.store.replica.closed_log import ClosedLog
from pymq.store.replica.epoch_table import epoch_table
from pymq.wire.command import Command

log = logging.getLogger(__name__)

UNKNOWN_LOG_END = 2**63 - 1  # for an epoch history that is read before its log
T = TypeVar("T")


class Awaited(Protocol):
    """Turns a call that reports to a callback into an awaitable."""

    def __call__(self, begin: Callable[[Callable[[T], None]], None]) -> Awaitable[T]: ...


class StartupCheck:
    """Asks for one broker. ``awaited`` and ``pause`` (milliseconds) belong to the event loop."""

    def __init__(
        self,
        runtime: Runtime,
        *,
        awaited: Awaited,
        pause: Callable[[int], Awaitable[None]],
        known_peers: KnownPeers,
    ) -> None:
        self._config = runtime.config
        self._network = runtime.network
        self._clock = runtime.clock
        self._files = runtime.files
        self._rng = runtime.rng
        self._awaited = awaited
        self._pause = pause
        self._known_peers = known_peers

    async def role(self, record: RoleRecord) -> tuple[RoleRecord, Role]:
        """Return the role to start in: the recorded one, unless another broker is the master now.

        Raises UsageError beside a second master that can't be overruled, or a member that may be one, StoreError.
        """
        if not record.role.is_master or not self._config.namesrv_addresses:
            return record, record.role
        found = await self._findings(record.configured_id)
        for warning in (*found.warnings, *found.distrusted):
            log.warning("%s", warning)
        if found.second_master:
            raise UsageError(found.second_master)
        if found.step_down is None:
            return record, record.role
        log.warning("this broker starts as slave %d: %s", found.step_down.broker_id, found.why)
        return demoted(record, found.step_down, found.why, self._clock.now_ms()), found.step_down

    async def _findings(self, flags_id: int) -> Findings:
        """Ask the members, until each has said what it is, or :mod:`.roles.unclear_members` decides."""
        config, began_ms = self._config, self._clock.monotonic_ms()
        us = Ourselves(
            config.broker_cluster_name,
            config.broker_name,
            self._address,
            self._saved_history(),
            is_starting=True,
            flags_id=flags_id,
        )
        while True:
            found = judge(us, await self._members([]))
            if not found.unclear:
                return found
            waited_ms = self._clock.monotonic_ms() - began_ms
            decision = decide_start(config.broker_name, found.unclear, self._known_peers.is_confirmed, waited_ms)
            if not decision.must_wait:
                break
            await self._pause(RETRY_MS)
        return replace(found, second_master=decision.refusal, warnings=found.warnings + decision.warnings)

    async def recover_tail(self, tail: TailRecovery) -> RecoveredTail:
        """Get back the part of this master's log that it lost and its slaves have. Raises StoreUnavailableError."""
        return await tail.search(self._ask, self._pause, self._members)

    @property
    def _address(self) -> str:
        return own_address(self._config)

    def _saved_history(self) -> EpochHistory:
        epoch_file = EpochFile(epoch_table(self._files, self._config.store_path_root_dir), self._rng)
        epoch_file.load(UNKNOWN_LOG_END)
        return epoch_file.history

    def _closed_log(self) -> ClosedLog | None:
        config = self._config
        try:
            return ClosedLog(self._files, config.store_path_root_dir, config.mapped_file_size_commit_log_bytes)
        except OSError as error:
            log.warning("this broker's log can't be compared with those of others before it is open: %s", error)
            return None

    async def _members(self, also: list[str]) -> list[Member]:
        config = self._config
        proof = MemberProof(self._network, self._saved_history, self._closed_log)
        group_probe = GroupProbe(self._network, config.broker_name, self._known_peers.note_listed, proof.check)
        servers = config.namesrv_addresses
        return await self._awaited(lambda done: group_probe.take(servers, self._address, done, also))

    async def _ask(self, address: str, command: Command, timeout_ms: int) -> Command | str:
        return await self._awaited(lambda done: self._network.ask(address, command, done, timeout_ms))
