"""HaService: a master's slaves, with one HaConnection each, what they acknowledged, and which of them are gone.

There is no work per message: once a turn each connection sends the new part of the log in one write.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable

from pymq.broker.replication.master.ha_connection import HaConnection, HaStore
from pymq.broker.replication.master.join_tokens import JoinedSlave, JoinTokens
from pymq.broker.replication.master.rejected_peers import RejectedPeers
from pymq.broker.replication.peer_proof import NO_PROOF, PeerProof
from pymq.broker.replication.rates import LogTimes
from pymq.broker.replication.roles.known_peers import KnownPeers
from pymq.clock import Clock
from pymq.config import BrokerConfig
from pymq.model.hosts import host_of
from pymq.printable import printable
from pymq.rate_limited_log import RateLimitedLog
from pymq.wire.bodies_replication import GONE, SlaveState
from pymq.wire.ha import proven_by_master, proven_content
from pymq.wire.streams import Stream, StreamHandler

log = logging.getLogger(__name__)

CONNECTIONS_MAX = 64
# Connections of peers that have not proved to be slaves: from one host, and from all hosts without a known broker. One
# more takes the place of the oldest of them. So strangers take no place of a known member.
UNPROVEN_PER_HOST_MAX = 4
UNPROVEN_STRANGERS_MAX = 8
# Slaves that went are kept until they come back, as many as may go at once: UnsyncedReplicas needs to know what each
# of them was sent.
GONE_MAX = CONNECTIONS_MAX


class HaService:
    """The slaves of one master. Belongs to the event loop's thread."""

    def __init__(
        self,
        *,
        store: HaStore,
        clock: Clock,
        config: BrokerConfig,
        rng: random.Random,
        known_peers: KnownPeers,
        peer_proof: PeerProof = NO_PROOF,
    ) -> None:
        # Gets the id and address of each slave before it is sent anything; may raise StoreUnavailableError.
        self.on_slave: Callable[[int, str], None] = lambda broker_id, address: None
        # Called when a slave has confirmed a part of the log for the first time: name servers may list it now.
        self.on_member: Callable[[], None] = lambda: None
        self.peer_proof = peer_proof
        self._known_peers = known_peers
        self._ack_listeners: list[Callable[[], None]] = []
        self._store = store
        self._clock = clock
        self._config = config
        self._join_tokens = JoinTokens(rng, config.ha_housekeeping_interval_ms)
        self._times = LogTimes()
        self._connections: list[HaConnection] = []
        self._gone: dict[tuple[int, str], SlaveState] = {}
        self._rejected_peers = RejectedPeers(clock)
        self._rate_limited_log = RateLimitedLog(log, clock, "connections to the HA port")
        self._seen_end = -1

    def add_ack_listener(self, listener: Callable[[], None]) -> None:
        """``listener`` is called when a slave has more than before, or has gone; not any more from :meth:`close` on."""
        self._ack_listeners.append(listener)

    def on_ack(self) -> None:
        """A slave has more than before, or has gone."""
        for listener in self._ack_listeners:
            listener()

    # -- connections -----------------------------------------------------------------------------------------------

    def accept(self) -> StreamHandler:
        """Return the handler of a new HA connection.

        Beyond CONNECTIONS_MAX the oldest connection without a usable report is closed first, so that idle connections
        keep no slave out.
        """
        if len(self._connections) >= CONNECTIONS_MAX and not self._make_room():
            return _TooMany(self._rate_limited_log)
        connection = HaConnection(self, self._store, self._times, clock=self._clock, config=self._config)
        self._connections.append(connection)
        return connection

    def _make_room(self) -> bool:
        candidates = [connection for connection in self._connections if connection.may_make_room]
        if not candidates:
            return False
        silent = [connection for connection in candidates if connection.sent_offset is None]
        self._evict((silent or candidates)[0], CONNECTIONS_MAX)
        return True

    def on_opened(self, connection: HaConnection) -> None:
        """Keep the number of peers that have not proved to be slaves within its limits."""
        unproven = [other for other in self._connections if other.is_unproven]
        host = host_of(connection.address)
        same_host = [other for other in unproven if host_of(other.address) == host]
        strangers = [other for other in unproven if not self._known_peers.is_known_host(other.address)]
        if len(same_host) > UNPROVEN_PER_HOST_MAX:
            self._evict(same_host[0], UNPROVEN_PER_HOST_MAX)
        elif len(strangers) > UNPROVEN_STRANGERS_MAX:
            self._evict(strangers[0], UNPROVEN_STRANGERS_MAX)

    def _evict(self, connection: HaConnection, limit: int) -> None:
        self._connections.remove(connection)
        connection.close(f"another connection took its place: there are {limit}")
        self._rate_limited_log.write("all", f"{connection.name} ended: {connection.problem}")

    def may_follow(self, connection: HaConnection) -> bool:
        """Return True for a RocketMQ slave. A peer on another host has the name servers asked soon.

        RocketMQ's slaves can prove nothing: of a secured master the operator names their hosts.
        """
        if self.peer_proof.is_required:
            return self._known_peers.may_follow_unproven(connection.address)
        if self._known_peers.may_follow_without_token(connection.address):
            return True
        self._known_peers.on_hint()
        return False

    @property
    def why_not_without_token(self) -> str:
        if self.peer_proof.is_required:
            return (
                "this master sends its log only to slaves that prove to have the servers' credentials: run PyMQ with "
                "the same innerCredentialsFile there, or add the host of a RocketMQ slave to haUnprovenSlaveHosts"
            )
        return "no name server lists a RocketMQ slave on its host: register the slave, or add its host to haSlaveHosts"

    def note_slave(self, connection: HaConnection) -> None:
        """Note a slave that joined. Raises StoreUnavailableError."""
        joined = connection.joined_slave
        if joined.broker_id >= 0:
            self.on_slave(joined.broker_id, joined.address)
            self._known_peers.confirm(joined.address)

    def joined_slave(self, broker_id: int, address: str, start: int, challenge: bytes = b"") -> int:
        """Return the token that a slave's connection begins with, to continue at ``start``.

        ``challenge``: what it asks a proof about; only for a master that can give one.
        """
        self._rejected_peers.forget(broker_id, address)
        nonce = self._join_tokens.nonce() if self.peer_proof.is_required else b""
        joined_slave = JoinedSlave(broker_id, address, start, nonce, challenge)
        return self._join_tokens.give(joined_slave, self._clock.monotonic_ms())

    def nonce_of(self, token: int) -> bytes:
        """Return the nonce for the proof that follows a token; empty when none does."""
        joined_slave = self._join_tokens.find(token, self._clock.monotonic_ms())
        return joined_slave.nonce if joined_slave is not None else b""

    def live_address(self, broker_id: int) -> str:
        """Return the address of the connected slave with this id; empty without one."""
        return next(
            (
                connection.address
                for connection in self._connections
                if connection.joined_slave.broker_id == broker_id and connection.counts
            ),
            "",
        )

    def redeem(self, connection: HaConnection, token: int, proof: bytes) -> JoinedSlave | str:
        joined_slave = self._join_tokens.find(token, self._clock.monotonic_ms())
        if joined_slave is None:
            return "its token is unknown or too old: it must join again"
        content = proven_content(token, joined_slave.start, joined_slave.nonce)
        if self.peer_proof.is_required and not self.peer_proof.is_right(content, proof):
            # The token stays good: its slave may come after a peer that has only seen it.
            return (
                "it has the token of a slave, but did not prove to have the servers' credentials: give both brokers "
                "the same innerCredentialsFile"
            )
        self._join_tokens.take(token, self._clock.monotonic_ms())
        for other in list(self._connections):
            if other is not connection and other.joined_slave.broker_id == joined_slave.broker_id:
                other.close("the same slave has connected again")
        connection.prove_to_slave(self._master_proof(token, joined_slave))
        return joined_slave

    def _master_proof(self, token: int, joined_slave: JoinedSlave) -> bytes:
        """Return the bytes that go before the first frame; empty when the slave asked for none."""
        prove, slave = self.peer_proof.prove, joined_slave
        if not slave.challenge or prove is None:
            return b""
        return prove(proven_by_master(token, slave.start, slave.challenge, slave.nonce))

    def refused(self, broker_id: int, address: str, why: str) -> None:
        """Note a refused JoinRequest. Of one that can't be read, ``broker_id`` is -1."""
        address, why = printable(address), printable(why)
        gone = self._gone.get(_key(broker_id, address))
        if gone is not None and host_of(gone.address) == host_of(address):
            gone.problem = why
        else:
            self._rejected_peers.note(broker_id, address, why)
        name = f"slave {broker_id} at {address}" if broker_id >= 0 else f"a join request from {address}"
        self._rate_limited_log.write(_source(broker_id, address), f"{name} was refused: {why}")

    def on_following(self, connection: HaConnection) -> None:
        if self.peer_proof.is_required and connection.joined_slave.broker_id < 0:
            self.warn(connection, "it gets the whole log without a proof, because haUnprovenSlaveHosts names its host")
        self._log(connection, f"{connection.name} follows from offset {connection.sent_offset} on", logging.INFO)

    def on_closed(self, connection: HaConnection, why: str) -> None:
        if connection not in self._connections:
            return
        self._connections.remove(connection)
        if connection.is_slave:
            self._remember(connection, why)
            self.warn(connection, f"its connection ended: {why}")
        elif connection.problem:  # without one it was a check whether the port is open
            self._rejected_peers.note(connection.joined_slave.broker_id, connection.address, why)
            self.warn(connection, why)
        self.on_ack()

    def warn(self, connection: HaConnection, what: str) -> None:
        self._log(connection, f"{connection.name}: {what}", logging.WARNING)

    def _log(self, connection: HaConnection, text: str, level: int) -> None:
        self._rate_limited_log.write(
            _source(connection.joined_slave.broker_id, connection.address),
            text,
            level,
            is_trusted=connection.joined_slave.broker_id >= 0,
        )

    def close(self, why: str) -> None:
        """Close all connections, because the broker stops or is no longer the master; send the last bytes before."""
        self._ack_listeners.clear()  # slaves go while another thread closes the store
        self.committed()
        for connection in list(self._connections):
            if not connection.is_slave:
                self._connections.remove(connection)  # it needs no log line
            connection.close(why)

    # -- sending ---------------------------------------------------------------------------------------------------

    def committed(self) -> None:
        """Send what the turn added to the log. Call it at the end of each turn."""
        if self._connections and self._store.physical_max_offset != self._seen_end:
            self._seen_end = self._store.physical_max_offset
            self._times.note(self._clock.monotonic_ms(), self._seen_end)
            for connection in self._connections:
                connection.pump()

    def tick(self) -> None:
        """Run the connections' timers. Call it several times a second."""
        now_ms = self._clock.monotonic_ms()
        self._rate_limited_log.tick()
        for connection in self._connections:
            connection.tick(now_ms)
        acks = [connection.ack_offset for connection in self._connections if connection.counts]
        if acks:
            self._times.forget_below(min(acks))

    # -- what the slaves have ----------------------------------------------------------------------------------------

    def offset_acked_by(self, slave_count: int) -> int:
        """Return the log offset that at least ``slave_count`` slaves acknowledged; 0 when there are fewer slaves."""
        acks = sorted([connection.ack_offset for connection in self._connections if connection.counts], reverse=True)
        if slave_count <= 0:
            return self._store.physical_max_offset
        return acks[slave_count - 1] if len(acks) >= slave_count else 0

    @property
    def in_sync_count(self) -> int:
        """The number of slaves that are less than ``haMaxGapNotInSync`` behind."""
        return sum(connection.is_in_sync for connection in self._connections)

    @property
    def are_all_there(self) -> bool:
        """True when every slave that went has come back."""
        self._forget_returned()
        return not self._gone

    def states(self) -> list[SlaveState]:
        """Return the state of each slave, of those that went and did not come back ("gone"), and of rejected peers
        ("refused")."""
        self._forget_returned()
        return [
            *(connection.state() for connection in self._connections),
            *self._gone.values(),
            *self._rejected_peers.states(),
        ]

    def _forget_returned(self) -> None:
        for connection in self._connections:
            if connection.sent_offset is not None:
                self._gone.pop(_key(connection.joined_slave.broker_id, connection.address), None)

    def _remember(self, connection: HaConnection, why: str) -> None:
        key = _key(connection.joined_slave.broker_id, connection.address)
        if any(_key(other.joined_slave.broker_id, other.address) == key for other in self._connections):
            return
        state = connection.state()
        state.state, state.problem, state.in_sync, state.bytes_per_second = GONE, why, False, 0
        self._gone.pop(key, None)
        self._gone[key] = state
        if len(self._gone) > GONE_MAX:  # slaves that never joined go first
            del self._gone[next((key for key in self._gone if key[0] < 0), next(iter(self._gone)))]


def _key(broker_id: int, address: str) -> tuple[int, str]:
    """Return a slave's key: its id, as its address may change; the host for RocketMQ's slaves, which send no id."""
    return (broker_id, "" if broker_id >= 0 else host_of(address))


def _source(broker_id: int, address: str) -> str:
    return f"{broker_id} {host_of(address)}"


class _TooMany:
    """Closes a connection beyond ``CONNECTIONS_MAX`` at once."""

    def __init__(self, rate_limited_log: RateLimitedLog) -> None:
        self._rate_limited_log = rate_limited_log

    def opened(self, stream: Stream) -> None:
        address = stream.peer_address
        self._rate_limited_log.write(
            _source(-1, address),
            f"a connection from {address} to the HA port was closed: the limit of {CONNECTIONS_MAX} is reached: stop "
            "other programs that connect here, or some slaves",
        )
        stream.close()

    def received(self, data: bytes) -> None: ...

    def writable(self) -> None: ...

    def closed(self, why: str) -> None: ...
