"""HaClient: a slave finds its master, joins it and follows it.

This is a state machine, driven by :meth:`HaClient.tick` and by the network's callbacks. It tries again after every
problem, soon after an outage and slowly after a refusal, and shows the problem in :meth:`HaClient.state`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from pymq.broker.addresses import own_address
from pymq.broker.replication.dispatch_pace import DispatchPace
from pymq.broker.replication.history.epoch_body import history_to_body
from pymq.broker.replication.history.epoch_history import EpochHistory, common_point
from pymq.broker.replication.history.log_end import tail_size
from pymq.broker.replication.history.log_proof import OwnLog
from pymq.broker.replication.peer_proof import PeerProof, Prove
from pymq.broker.replication.rates import Rate
from pymq.broker.replication.roles.own_role import OwnRole
from pymq.broker.replication.roles.role import RoleChange
from pymq.broker.replication.slave.ha_client_session import CopiedLog, FollowedStore, FollowingLog, HaClientSession
from pymq.broker.replication.slave.joining import Joined, Joining, NotJoined, Outcome
from pymq.broker.runtime import Runtime
from pymq.config.values import SYNC_FLUSH
from pymq.errors import StoreError
from pymq.wire.bodies_replication import CONNECTING, FOLLOWING, JOINING, REFUSED, WAITING, HaClientState, JoinRequest
from pymq.wire.ha import NONCE_SIZE_BYTES

log = logging.getLogger(__name__)

TICK_PERIOD_MS = 50
RETRY_MIN_MS = 100
RETRY_MAX_MS = 5000
REFUSED_RETRY_MS = 5000
STEADY_MS = 5000  # after so much following, retries begin with short pauses again


class HaClientLog(FollowingLog, Protocol):
    """The log that an HaClient extends: :class:`pymq.store.replica.follower.Follower`."""

    @property
    def dispatched_end(self) -> int: ...

    def dispatch(self, bytes_max: int | None = None) -> int: ...


class HaClientStore(FollowedStore, Protocol):
    """The part of the store that an HaClient needs."""

    def tail_digest(self, end: int, tail_bytes: int) -> str: ...


class HaClient:
    """Belongs to the event loop's thread. Call :meth:`tick` every ``TICK_PERIOD_MS``."""

    def __init__(
        self,
        runtime: Runtime,
        *,
        store: HaClientStore,
        follower: HaClientLog,
        own: OwnRole,
        request_sync: Callable[[], None],
        wake_in: Callable[[int], None] = lambda delay_ms: None,
        prove: Prove | None = None,
    ) -> None:
        """``request_sync`` starts an fsync of the log; a call of :meth:`end_turn` follows it.

        ``prove`` answers a master that asks for a proof; None without the servers' credentials. With it the master must
        prove the same, unless the operator named its host.

        The master's role is noted each time this slave has joined. ``wake_in`` schedules an early call of :meth:`tick`
        in so many milliseconds.
        """
        self._runtime = runtime
        self._config = runtime.config
        self._store = store
        self._follower = follower
        self._epoch_file = own.epoch_file
        self._copied_log = CopiedLog(follower, store, own.epoch_file, request_sync)
        self._network = runtime.network
        self._clock = runtime.clock
        self._rng = runtime.rng
        self._role = own.role
        self._change_role = own.change_role
        self._request_sync = request_sync
        self._master_role = own.master_role
        self._wake_in = wake_in
        self._prove = prove
        self._master_address = own.role.master_address
        self._ha_address = ""  # from the name servers
        self._address = own_address(runtime.config)
        self._joining: Joining | None = None
        self._session: HaClientSession | None = None
        self._state = WAITING
        self._problem = ""
        self._truncate_to = -1  # where the operator may allow a truncation
        self._other_log = ""  # why our log is not a part of the master's that we asked last
        self._is_closed = False
        now_ms = runtime.clock.monotonic_ms()
        self._next_try_ms = now_ms
        self._retry_ms = RETRY_MIN_MS
        self._following_since_ms = now_ms
        self._connected_to = ""
        self._master_end = -1
        self._last_heard_wall_ms = -1
        self._was_even_ms = now_ms  # the last time when we had all of the master's log
        self.has_caught_up = False  # has had all of the master's log once since the start
        self._rate = Rate(now_ms, 0)
        self._pace = DispatchPace(now_ms, 0)

    # -- inputs ------------------------------------------------------------------------------------------------------

    def note_master(self, master_address: str, ha_address: str) -> None:
        """Note the master's addresses ("host:port") from a name server. Empty ones change nothing."""
        if not master_address and not ha_address:
            return
        is_other_master = master_address != self._master_address
        is_other = is_other_master or self._ha_address not in ("", ha_address)
        had_one = bool(self._master_address or self._ha_address)
        self._master_address, self._ha_address = master_address, ha_address
        if not is_other_master and self._state in (CONNECTING, FOLLOWING) and self._connected_to == ha_address:
            return  # the master's answer to the joining named its new HA address before the name server did
        if is_other:
            self._next_try_ms = self._clock.monotonic_ms()
            self._retry_ms = RETRY_MIN_MS
            self._wake_in(0)
            if had_one and self._state in (JOINING, CONNECTING, FOLLOWING):
                self._drop(f"the master is now at {master_address}")

    def note_master_end(self, log_end: int) -> None:
        """Note that the master's log ends at ``log_end`` or later."""
        self._master_end = max(self._master_end, log_end)

    def end_turn(self) -> None:
        """Report what a sync brought to the disk. Call it at the end of each turn."""
        if self._session is not None and self._state == FOLLOWING and self._config.flush_disk_type == SYNC_FLUSH:
            self._session.report()

    def tick(self) -> None:
        if self._is_closed:
            return
        now_ms = self._clock.monotonic_ms()
        self._dispatch()
        session = self._session
        if session is not None:
            session.tick(now_ms)
            self._look(session, now_ms)
        elif self._joining is None and now_ms >= self._next_try_ms:
            self._try()

    def close(self) -> None:
        """Stop following: the parts are closed, or the role changes."""
        self._is_closed = True
        self._drop("this broker stops following")

    @property
    def is_following(self) -> bool:
        return self._state == FOLLOWING

    @property
    def master_address(self) -> str:
        """The address for requests to the master; empty while it is unknown."""
        return self._master_address

    def state(self) -> HaClientState:
        now_ms = self._clock.monotonic_ms()
        master_end = self._master_end
        lag_bytes = max(master_end - self._follower.end, 0) if master_end >= 0 else -1
        return HaClientState(
            master_address=self._master_address,
            ha_address=self._connected_to or self._config.ha_master_address or self._ha_address,
            state=self._state,
            problem=self._problem,
            master_log_end=master_end,
            lag_bytes=lag_bytes,
            lag_ms=-1 if lag_bytes < 0 else now_ms - self._was_even_ms if lag_bytes else 0,
            bytes_per_second=self._rate.per_second if self._state == FOLLOWING else 0,
            last_heard_ms=self._last_heard_wall_ms,
            truncate_to=self._truncate_to,
            other_log=self._other_log,
        )

    # -- joining and following ---------------------------------------------------------------------------------------

    def _try(self) -> None:
        """Join, or wait for what joining needs."""
        ha_address = self._config.ha_master_address or self._ha_address
        if self._config.flush_disk_type == SYNC_FLUSH and self._store.synced_offset < self._follower.end:
            self._request_sync()  # the first report confirms all of our log
            self._again_in(RETRY_MIN_MS)
            return
        if self._master_address and self._master_address != self._address:
            self._join()
        elif ha_address and not self._master_address:
            # haMasterAddress without a name server: like RocketMQ's slave, this one compares nothing.
            self._connect(Joined(None, ha_address, None, EpochHistory()))
        else:
            self._wait("no master is known yet: check that one is registered at the name servers")

    def _join(self) -> None:
        config, store = self._config, self._store
        start, end = store.physical_min_offset, self._follower.end
        size = tail_size(start, end, config.mapped_file_size_commit_log_bytes)
        try:
            digest = store.tail_digest(end, size) if size else ""
        except (StoreError, OSError) as error:
            self._wait(f"the end of our log can't be read: {error}")
            return
        request = JoinRequest(
            cluster=config.broker_cluster_name,
            broker_name=config.broker_name,
            broker_id=self._role.broker_id,
            address=self._address,
            segment_size_bytes=config.mapped_file_size_commit_log_bytes,
            log_start=start,
            log_end=end,
            tail_bytes=size,
            tail_digest=digest,
            full_sync=config.ha_full_sync,
            epoch_history=history_to_body(self._epoch_file.history),
            challenge=self._rng.randbytes(NONCE_SIZE_BYTES).hex() if self._prove is not None else "",
        )
        self._state = JOINING
        own_log = OwnLog(start, end, config.mapped_file_size_commit_log_bytes, store.tail_digest)
        proof = PeerProof(prove=self._prove)
        self._joining = Joining(self._network, self._master_address, request, self._joined, own_log, proof)
        self._joining.begin()

    def _joined(self, outcome: Outcome) -> None:
        self._joining = None
        if isinstance(outcome, NotJoined):
            if outcome.was_refused:
                self._other_log = outcome.why if outcome.is_other_log else self._other_log
                self._refuse(outcome.why)
            else:
                self._wait(outcome.why)
            return
        end = self._follower.end
        if outcome.start is not None and outcome.start < end and end > self._store.physical_min_offset:
            self._begin_truncation(outcome, outcome.start, end)
        else:
            self._truncate_to, self._other_log = -1, ""
            if outcome.nonce and self._prove is None:
                self._refuse(
                    f"the master at {self._master_address} wants a proof of the servers' credentials, and this broker "
                    "has none: set innerCredentialsFile to the file that the master has"
                )
                return
            self._connect(outcome)

    def _begin_truncation(self, joined: Joined, start: int, end: int) -> None:
        """Truncate the divergent tail from ``start`` on if the histories prove it and it is small.

        A larger one, or all of the log, is the operator's decision (``pymq broker rejoin``): this broker keeps its log.
        """
        size_max, log_start = self._config.ha_truncation_max_bytes, self._store.physical_min_offset
        common = common_point(self._epoch_file.history, end, joined.epoch_history, joined.log_end)
        self._truncate_to = -1
        if not common.is_known or common.offset != start:
            self._refuse(
                f"the master at {self._master_address} would have our log truncated from {end} to {start}, but by the "
                f"epoch histories both logs are equal up to {common.offset}: nothing is truncated; look at both with "
                "pymq broker status"
            )
        elif start <= log_start or end - start > size_max or joined.unproven:
            self._truncate_to = start
            self._other_log = f"its master's log is equal up to {start} only, its own ends at {end}"
            limit = f"all of it from {log_start} on" if start <= log_start else f"more than haTruncationMax={size_max}"
            if start > log_start and joined.unproven:
                limit = joined.unproven
            self._refuse(
                f"our log must be truncated from {end} to {start} to follow it ({end - start} bytes, {limit}): nothing "
                f"is truncated; to allow it, run pymq broker rejoin {self._address} --truncate-to {start}"
            )
        else:
            self._ask_for_truncation(start, end)

    def _ask_for_truncation(self, start: int, end: int) -> None:
        why = f"the log from {start} to {end} differs from the master's"
        self._refuse(f"{why}: it is truncated, then this broker joins again")
        self._change_role(RoleChange(self._role, why, truncate_to=start))

    def _connect(self, joined: Joined) -> None:
        ha_address = self._config.ha_master_address or joined.ha_address or self._ha_address
        if not ha_address:
            self._wait(f"{self._master_address} did not give its HA address, and the name servers don't know it")
            return
        if self._prove is not None and not joined.challenge and not self._may_be_unproven(ha_address):
            self._refuse(
                f"the master at {ha_address} can't prove to have the servers' credentials, as no RocketMQ broker can: "
                "run PyMQ there, or add its host to haUnprovenMasterHosts"
            )
            return
        if joined.master_role:
            self._master_role.note(joined.master_role)
        self._state = CONNECTING
        self._connected_to = ha_address
        if joined.log_end >= 0:
            self._master_end = joined.log_end
        self._pace.begin(self._clock.monotonic_ms(), self._follower.end)
        self._session = HaClientSession(
            self._runtime,
            self._copied_log,
            joined=joined,
            prove=self._prove,
            dispatch=self._dispatch,
            on_end=self._ended,
        )
        self._network.connect(ha_address, self._session)

    def _may_be_unproven(self, ha_address: str) -> bool:
        """True when the operator named the master's host."""
        return ha_address.rpartition(":")[0].strip("[]") in self._config.ha_unproven_master_host_list

    def _look(self, session: HaClientSession, now_ms: int) -> None:
        """Note what the session did since the last tick."""
        if self._session is not session or not session.has_heard:
            return
        if self._state != FOLLOWING:
            self._state = FOLLOWING
            self._problem = ""
            self._following_since_ms = now_ms
            self._rate = Rate(now_ms, self._follower.end)
            log.info("following the master at %s from offset %d on", self._connected_to, session.began_at)
        self._master_end = max(self._master_end, session.master_end)
        self._last_heard_wall_ms = self._clock.now_ms() - (now_ms - session.heard_ms)
        if self._follower.end >= self._master_end:
            self._was_even_ms = now_ms
            self.has_caught_up = True
        self._rate.look(now_ms, self._follower.end)
        if now_ms - self._following_since_ms >= STEADY_MS:
            self._retry_ms = RETRY_MIN_MS

    def _dispatch(self) -> None:
        """Dispatch the new records when it is time."""
        end, now_ms = self._follower.end, self._clock.monotonic_ms()
        waiting_bytes = end - self._follower.dispatched_end
        left_ms = self._pace.left_ms(now_ms, end, waiting_bytes)
        if not waiting_bytes:
            return
        if left_ms:
            self._wake_in(left_ms)
        else:
            self._follower.dispatch()
            self._pace.dispatched(self._clock.monotonic_ms())

    # -- failures ----------------------------------------------------------------------------------------------------

    def _drop(self, why: str) -> None:
        if self._joining is not None:
            self._joining.abandon()
            self._joining = None
            self._wait(why)
        elif self._session is not None:
            self._session.end(why)

    def _ended(self, session: HaClientSession, why: str) -> None:
        if session is self._session:
            self._session = None
            self._wait(why)

    def _wait(self, why: str) -> None:
        """Try again after an outage, with growing pauses."""
        self._set_state(WAITING, why)
        self._again_in(self._retry_ms)
        self._retry_ms = min(self._retry_ms * 2, RETRY_MAX_MS)

    def _refuse(self, why: str) -> None:
        """Try again slowly after a refusal, because only an operator can resolve it."""
        self._set_state(REFUSED, f"refused: {why}")
        self._again_in(REFUSED_RETRY_MS)

    def _again_in(self, delay_ms: int) -> None:
        # A random part: otherwise all slaves of a master that restarts would come together.
        self._next_try_ms = self._clock.monotonic_ms() + delay_ms // 2 + self._rng.randrange(delay_ms // 2 + 1)

    def _set_state(self, state: str, problem: str) -> None:
        if problem != self._problem and not self._is_closed:
            log.warning("%s %s", "not following the master:" if state == WAITING else "the master", problem)
        self._state, self._problem = state, problem
